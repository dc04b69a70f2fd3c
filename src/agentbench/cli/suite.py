"""`ab suite`: list suites."""

from __future__ import annotations

import json
from pathlib import Path

import click

from agentbench.cli.options import json_option, tasks_dir_option

EPILOG = """\b
Examples:
  ab suite ls
  ab suite ls --tasks-dir benchmarks --json
"""


@click.group(epilog=EPILOG)
def command() -> None:
    """List suites."""


@command.command("ls", epilog=EPILOG)
@tasks_dir_option
@json_option
def ls_command(*, tasks_dir: Path, as_json: bool) -> None:
    """List suites with their tasks, strata, and what is left to do.

    Readable means that the files of a task have no problem. Nothing runs here: `ab validate-tasks` runs the baseline
    and the reference of a task and says whether it is valid.
    """
    from agentbench.authoring import suite_list
    from agentbench.core.text import printable

    entries = suite_list.list_suites(tasks_dir)
    if as_json:
        click.echo(json.dumps({"suites": suite_list.as_json(entries)}, indent=2))
        return
    for entry in entries:
        for line in suite_list.as_lines(entry):
            click.echo(printable(line))
