"""`ab init`: a new suite with one commented task."""

from __future__ import annotations

from pathlib import Path

import click

from agentbench.cli.options import json_option

EPILOG = """\b
Example:
  ab init tasks/mine
  ab validate-tasks --suite mine
"""


@click.command("init", epilog=EPILOG)
@click.argument("folder", metavar="DIR", type=click.Path(path_type=Path))
@json_option
def command(folder: Path, *, as_json: bool) -> None:
    """Make a new suite in DIR with one commented task that can be run at once."""
    import json

    from agentbench.contract.templates import new_suite

    loaded = new_suite(folder)
    suite = loaded.task.suite
    if as_json:
        click.echo(json.dumps({"suite": suite, "folder": str(folder), "task": str(folder / loaded.folder.name)}))
        return
    click.echo(f"made suite {suite} with task {loaded.task.id}: {folder / loaded.folder.name / 'task.yaml'}")
    parent = folder.parent
    where = "" if parent == Path("tasks") else f" --tasks-dir {parent}"
    click.echo("next:", err=True)
    click.echo(f"  ab task check {folder}", err=True)
    click.echo(f"  ab validate-tasks --suite {suite}{where}", err=True)
    click.echo(f"  ab run --suite {suite}{where} --agent reference", err=True)
