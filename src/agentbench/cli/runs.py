"""`ab runs`: list the runs of a folder."""

from __future__ import annotations

import json
from pathlib import Path

import click

from agentbench.cli.options import json_option, out_option

EPILOG = """\b
Examples:
  ab runs ls
  ab runs ls --limit 5
  ab runs ls --out build/runs --json

Commands that take a run accept its path, its id, a unique prefix of its name or id, or `latest`; FOLDER/NAME looks in
another folder than artifacts/runs.
"""


@click.group(epilog=EPILOG)
def command() -> None:
    """List runs."""


@command.command("ls", epilog=EPILOG)
@out_option
@click.option("--limit", type=click.IntRange(1), help="List only the newest runs.")
@json_option
def ls_command(*, out: Path, limit: int | None, as_json: bool) -> None:
    """List runs, newest first, with their state, counts and size.

    A run is finished, incomplete (it ended, and planned attempts have no result),
    interrupted, running or imported from another tool. `ab run --resume` continues
    incomplete and interrupted runs.
    """
    from agentbench.reports import run_list

    entries = run_list.list_runs(out, limit)
    if as_json:
        click.echo(json.dumps({"runs": run_list.as_json(entries)}, indent=2))
        return
    click.echo(run_list.headline(entries, out))
    for line in run_list.as_lines(entries) if entries else ():
        click.echo(line)
