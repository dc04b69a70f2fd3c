"""`ab init`: create a suite with one commented task."""

from __future__ import annotations

from pathlib import Path

import click

from agentbench.cli.options import json_option
from agentbench.core.text import shell_quoted

EPILOG = """\b
Examples:
  ab init tasks/mine
  ab validate-tasks --suite mine
"""


@click.command("init", epilog=EPILOG)
@click.argument("folder", metavar="DIR", type=click.Path(path_type=Path))
@json_option
def command(folder: Path, *, as_json: bool) -> None:
    """Create a suite in DIR with one commented, runnable task."""
    import json

    from agentbench.contract.templates import new_suite

    loaded = new_suite(folder)
    suite = loaded.task.suite
    if as_json:
        click.echo(json.dumps({"suite": suite, "folder": str(folder), "task": str(folder / loaded.folder.name)}))
        return
    click.echo(f"Created suite {suite} with task {loaded.task.id}: {folder / loaded.folder.name / 'task.yaml'}")
    parent = folder.parent
    where = "" if parent == Path("tasks") else f" --tasks-dir {shell_quoted(parent)}"
    click.echo("Next:", err=True)
    click.echo(f"  ab task check {shell_quoted(folder)}", err=True)
    click.echo(f"  ab validate-tasks --suite {suite}{where}", err=True)
    click.echo(f"  ab run --suite {suite}{where} --agent reference", err=True)
