"""`ab task import` and `ab task export`: the formats of other benchmarks."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import click

from agentbench.cli.options import FILE, FOLDER, json_option

if TYPE_CHECKING:
    from agentbench.core.canonical import Json

IMPORT_EPILOG = """\b
Examples:
  ab task import swebench rows.jsonl --suite-dir tasks/swe --repos ~/clones
  ab task import swebench test.parquet --only psf__requests-1142
"""
EXPORT_EPILOG = """\b
Example:
  ab task export swebench tasks/mine --out rows.jsonl
"""


@click.group("import")
def import_group() -> None:
    """Make tasks from the files of another benchmark."""


@click.group("export")
def export_group() -> None:
    """Write tasks in the format of another benchmark."""


@import_group.command("swebench", epilog=IMPORT_EPILOG)
@click.argument("file", metavar="FILE", type=FILE)
@click.option("--suite-dir", type=FOLDER, default=Path("tasks/swebench"), show_default=True, help="The suite's folder.")
@click.option("--repos", type=FOLDER, help="A folder of clones: owner__name, owner/name or name.")
@click.option(
    "--url", default="https://github.com/{repo}.git", show_default=True, help="Where repositories are, without --repos."
)
@click.option("--only", multiple=True, metavar="ID", help="Only this instance. May be given several times.")
@json_option
def import_swebench(
    *, file: Path, suite_dir: Path, repos: Path | None, url: str, only: tuple[str, ...], as_json: bool
) -> None:
    """Make a task of every row of FILE: JSON, JSON lines or Parquet. Nothing runs; validate them with validate-tasks.

    Rows that cannot be used are told with their place; exit 2 when there were any.
    """
    import sys

    from agentbench.authoring.swebench import address, import_instance, read_instances
    from agentbench.core.errors import InputError, TaskError
    from agentbench.core.text import printable
    from agentbench.run.lab import Lab

    made: list[Json] = []
    refused: list[Json] = []
    with Lab() as lab:
        for place, one in read_instances(file, only):
            try:
                if isinstance(one, InputError):
                    raise one
                folder = import_instance(one, address(one.repo, repos, url), suite_dir, lab)
            except (InputError, TaskError) as error:
                refused.append({"place": place, "reason": error.message})
                click.echo(printable(f"refused {place}: {error.message}"), err=True)
            else:
                made.append({"task_id": one.id, "folder": str(folder)})
                if not as_json:
                    click.echo(printable(f"made {one.id}: {folder}"))
    if as_json:
        click.echo(json.dumps({"tasks": made, "refused": refused}, indent=2))
    else:
        click.echo(f"{len(made)} tasks made, {len(refused)} rows refused", err=True)
    sys.exit(2 if refused or not made else 0)


@export_group.command("swebench", epilog=EXPORT_EPILOG)
@click.argument("paths", metavar="PATH…", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option("--out", type=FILE, help="JSON lines are written here; stdout if not given.")
def export_swebench(*, paths: tuple[Path, ...], out: Path | None) -> None:
    """Write tasks as rows of SWE-bench (JSON lines). PATH is a task, or a folder of tasks."""
    from agentbench.authoring.swebench import export_task
    from agentbench.contract.suite import find_tasks
    from agentbench.core.errors import InputError
    from agentbench.run.lab import Lab

    with Lab() as lab:
        rows = [json.dumps(export_task(task, lab)) for path in paths for task in find_tasks(path)]
    text = "".join(f"{row}\n" for row in rows)
    if out is None:
        click.echo(text, nl=False)
        return
    try:
        out.write_text(text, encoding="utf-8")
    except OSError as error:
        msg = f"--out {out} cannot be written: {error.strerror}"
        raise InputError(msg) from None
    click.echo(f"{len(rows)} rows: {out}", err=True)


# --- harbor ------------------------------------------------------------------------------------------------------

HARBOR_IN_EPILOG = """\b
Example:
  ab task import harbor downloaded/my-task --suite-dir tasks/harbor
"""
HARBOR_OUT_EPILOG = """\b
Example:
  ab task export harbor tasks/mine --out harbor/
"""


@import_group.command("harbor", epilog=HARBOR_IN_EPILOG)
@click.argument("folders", metavar="DIR…", nargs=-1, required=True, type=FOLDER)
@click.option("--suite-dir", type=FOLDER, default=Path("tasks/harbor"), show_default=True, help="The suite's folder.")
def import_harbor(*, folders: tuple[Path, ...], suite_dir: Path) -> None:
    """Make a task of every Harbor task DIR. Nothing runs; the environments are images, so running them needs docker."""
    from agentbench.authoring.harbor import import_folder

    for folder in folders:
        click.echo(f"made {import_folder(folder, suite_dir)}")


@export_group.command("harbor", epilog=HARBOR_OUT_EPILOG)
@click.argument("paths", metavar="PATH…", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option("--out", type=FOLDER, required=True, help="A folder for the tasks, one folder each.")
def export_harbor(*, paths: tuple[Path, ...], out: Path) -> None:
    """Write tasks as folders of Harbor. PATH is a task, or a folder of tasks."""
    from agentbench.authoring.harbor import export_task
    from agentbench.contract.suite import find_tasks
    from agentbench.run.lab import Lab

    with Lab() as lab:
        for path in paths:
            for task in find_tasks(path):
                click.echo(f"made {export_task(task, out, lab)}")
