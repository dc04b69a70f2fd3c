"""`ab task import` and `ab task export`: exchange tasks with other benchmarks."""

from __future__ import annotations

import contextlib
import json
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import click

from agentbench.cli.options import FILE, FOLDER, json_option, task_paths_argument
from agentbench.reports.number_format import plural

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


_OF_ROWS = {
    "check `repo.commit` and that it was pushed": (
        "check `base_commit` of the row; a clone of --repos may need `git fetch`"
    ),
    "check `repo.url`": "check `repo` of the row and --url (or have clones and give --repos)",
    "use the URL it was cloned from": "import without --repos",
}
"""Remedies that mention a task file, reworded for rows of a dataset."""


class _Refusals:
    """Report rejected items and continue with the others."""

    def __init__(self, words: Mapping[str, str] | None = None) -> None:
        """`words` maps parts of remedies to their replacement."""
        self.rows: list[Json] = []
        self._words = words or {}

    @contextlib.contextmanager
    def at(self, place: str) -> Iterator[None]:
        from agentbench.core.errors import ContractError, InputError, TaskError
        from agentbench.core.text import printable

        try:
            yield
        except (InputError, TaskError) as error:
            more = [*error.problems] if isinstance(error, ContractError) else []
            reason = "; ".join([error.message, *more])
            remedy = error.remedy
            for old, new in self._words.items():
                remedy = remedy.replace(old, new)
            row: dict[str, Json] = {"place": place, "reason": reason}
            self.rows.append({**row, "remedy": remedy} if remedy else row)
            click.echo(printable(f"rejected {place}: {reason}"), err=True)
            if remedy:
                click.echo(printable(f"  {remedy}"), err=True)


def _folders(paths: tuple[Path, ...]) -> Iterator[Path]:
    """Yield task folders, so that a broken task does not hide the others."""
    from agentbench.contract.load import TASK_NAME

    for path in paths:
        inner = sorted(path.glob(f"*/{TASK_NAME}")) if path.is_dir() and not (path / TASK_NAME).exists() else []
        yield from (file.parent for file in inner) if inner else (path,)


class ImportGroup(click.Group):
    """Built-in importers, and those of plug-ins."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted(self.commands)

    def get_command(self, ctx: click.Context, name: str) -> click.Command | None:
        if name in self.commands:
            return self.commands[name]
        from agentbench.authoring.formats.importer import OTHER_IMPORTERS

        return _plugin_command(name) if OTHER_IMPORTERS.has(name) else None


def _plugin_command(name: str) -> click.Command:
    @click.command(name, help=f"Create tasks from SOURCE with the installed importer {name}.")
    @click.argument("source", type=click.Path(path_type=Path, exists=True))
    @click.option("--suite-dir", type=FOLDER, help=f"Folder of the suite [default: tasks/{name}].")
    @json_option
    def imported(*, source: Path, suite_dir: Path | None, as_json: bool) -> None:
        from agentbench.api.tasks import import_tasks
        from agentbench.core.text import printable

        tasks = import_tasks(name, source, suite_dir or Path("tasks") / name)
        if as_json:
            created = [{"task_id": task.id, "folder": str(task.folder)} for task in tasks]
            click.echo(json.dumps({"tasks": created, "refused": []}, indent=2))
            return
        for task in tasks:
            click.echo(printable(f"Created {task.id}: {task.folder}"))
        click.echo(f"{plural(len(tasks), 'task')} created", err=True)

    return imported


@click.group("import", cls=ImportGroup, epilog=IMPORT_EPILOG)
def import_group() -> None:
    """Import tasks from another benchmark: swebench, harbor, or the format of an installed plug-in."""


@click.group("export", epilog=EXPORT_EPILOG)
def export_group() -> None:
    """Export tasks to the format of another benchmark."""


@import_group.command("swebench", epilog=IMPORT_EPILOG)
@click.argument("file", metavar="FILE", type=FILE)
@click.option(
    "--suite-dir", type=FOLDER, default=Path("tasks/swebench"), show_default=True, help="Folder of the suite."
)
@click.option("--repos", type=FOLDER, help="Folder of clones named owner__name, owner/name or name.")
@click.option(
    "--url", default="https://github.com/{repo}.git", show_default=True, help="URL of a repository (without --repos)."
)
@click.option("--only", multiple=True, metavar="ID", help="Only this instance. Can be repeated.")
@json_option
def import_swebench(
    *, file: Path, suite_dir: Path, repos: Path | None, url: str, only: tuple[str, ...], as_json: bool
) -> None:
    """Create a task from every row of FILE (JSON, JSON lines or Parquet), without running anything.

    Rejected rows are reported with their place, and the exit code is 2 if there are any.
    """
    from agentbench.authoring.formats.swebench import import_instance, read_instances, repository_url
    from agentbench.contract.json_schema import write_suite_schemas
    from agentbench.core.errors import InputError
    from agentbench.core.text import printable
    from agentbench.execution.lab import Lab

    created: list[Json] = []
    refused = _Refusals(_OF_ROWS)
    with Lab() as lab:
        for place, instance in read_instances(file, only):
            with refused.at(place):
                if isinstance(instance, InputError):
                    raise instance
                folder = import_instance(instance, repository_url(instance.repo, repos, url), suite_dir, lab)
                created.append({"task_id": instance.id, "folder": str(folder)})
                if not as_json:
                    click.echo(printable(f"Created {instance.id}: {folder}"))
    if created:
        write_suite_schemas(suite_dir)
    if not created and not refused.rows:
        raise InputError(f"{file} has no row" + (f" called {' or '.join(only)}" if only else ""))
    if as_json:
        click.echo(json.dumps({"tasks": created, "refused": refused.rows}, indent=2))
    else:
        click.echo(f"{plural(len(created), 'task')} created, {plural(len(refused.rows), 'row')} rejected", err=True)
    sys.exit(2 if refused.rows else 0)


@export_group.command("swebench", epilog=EXPORT_EPILOG)
@task_paths_argument()
@click.option("--out", type=FILE, help="Output file in JSON lines [default: stdout].")
def export_swebench(*, paths: tuple[Path, ...], out: Path | None) -> None:
    """Export tasks as SWE-bench rows (JSON lines). PATH is a task or a folder of tasks.

    Tasks that cannot be represented are reported, and the exit code is 2 if there are any.
    """
    from agentbench.authoring.formats.swebench import export_task
    from agentbench.contract.load import load_task
    from agentbench.core.errors import InputError
    from agentbench.execution.lab import Lab

    rows: list[str] = []
    refused = _Refusals()
    with Lab() as lab:
        for folder in _folders(paths):
            with refused.at(str(folder)):
                rows.append(json.dumps(export_task(load_task(folder), lab)) + "\n")
    if out is None:
        click.echo("".join(rows), nl=False)
    elif rows:
        try:
            out.write_text("".join(rows), encoding="utf-8")
        except OSError as error:
            raise InputError(f"cannot write --out {out}: {error.strerror}") from None
        click.echo(f"Wrote {plural(len(rows), 'row')} to {out}", err=True)
    if refused.rows:
        click.echo(f"{plural(len(rows), 'row')} written, {plural(len(refused.rows), 'task')} rejected", err=True)
    sys.exit(2 if refused.rows else 0)


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
@click.option("--suite-dir", type=FOLDER, default=Path("tasks/harbor"), show_default=True, help="Folder of the suite.")
def import_harbor(*, folders: tuple[Path, ...], suite_dir: Path) -> None:
    """Create a task from every Harbor task DIR, without running anything. Running the tasks needs docker.

    Rejected folders are reported, and the exit code is 2 if there are any.
    """
    from agentbench.authoring.formats.harbor import import_folder

    refused = _Refusals()
    for folder in folders:
        with refused.at(str(folder)):
            click.echo(f"Created {import_folder(folder, suite_dir)}")
    if refused.rows and len(folders) > 1:
        click.echo(
            f"{plural(len(folders) - len(refused.rows), 'task')} created, {len(refused.rows)} rejected", err=True
        )
    sys.exit(2 if refused.rows else 0)


@export_group.command("harbor", epilog=HARBOR_OUT_EPILOG)
@task_paths_argument()
@click.option("--out", type=FOLDER, required=True, help="Folder for the exported tasks.")
def export_harbor(*, paths: tuple[Path, ...], out: Path) -> None:
    """Export tasks as Harbor folders. PATH is a task or a folder of tasks.

    Tasks that cannot be represented are reported, and the exit code is 2 if there are any.
    """
    from agentbench.authoring.formats.harbor import export_task
    from agentbench.contract.load import load_task
    from agentbench.execution.lab import Lab

    written = 0
    refused = _Refusals()
    with Lab() as lab:
        for folder in _folders(paths):
            with refused.at(str(folder)):
                click.echo(f"Created {export_task(load_task(folder), out, lab)}")
                written += 1
    if refused.rows and written:
        click.echo(f"{plural(written, 'task')} written, {len(refused.rows)} rejected", err=True)
    sys.exit(2 if refused.rows else 0)
