"""`ab plugin`: write the package of a new plug-in."""

from __future__ import annotations

import json
from pathlib import Path

import click

from agentbench.cli.options import FOLDER, json_option
from agentbench.plugins.kinds import Kind

EPILOG = """\b
Examples:
  ab plugin new scorer no_todos
  ab plugin new check tap --out plugins/tap
"""


@click.group(epilog=EPILOG)
def command() -> None:
    """Write the package of a new plug-in."""


@command.command("new", epilog=EPILOG)
@click.argument("kind", type=click.Choice([str(kind) for kind in Kind]), metavar="KIND")
@click.argument("name")
@click.option("--out", type=FOLDER, help="Folder of the package [default: ./NAME].")
@json_option
def new_command(kind: str, name: str, *, out: Path | None, as_json: bool) -> None:
    """Write a package with one plug-in and its test.

    KIND is agent, scorer, check, sandbox, importer, exporter, report_section, executor or monitor. NAME is the name of the
    plug-in and of its function.
    """
    from agentbench.api.extensions import EXTENSIONS
    from agentbench.cli.installation import install_commands, python_command
    from agentbench.cli.output import called_as
    from agentbench.core.errors import InputError
    from agentbench.core.text import shell_quoted
    from agentbench.plugins.template import write_package

    if name in EXTENSIONS[Kind(kind)].built_in:
        raise InputError(f"there is a built-in {Kind(kind).words} '{name}'", remedy="choose another name")
    folder = out or Path(name)
    files = write_package(Kind(kind), name, folder)
    if as_json:
        click.echo(json.dumps({"kind": kind, "name": name, "folder": str(folder), "files": files}))
        return
    click.echo(f"Created {Kind(kind).words} {name}: {folder}")
    click.echo("Next:", err=True)
    for line in (
        *install_commands(f"-e {shell_quoted(f'{folder}[test]')}"),
        f"{python_command()} -m pytest {shell_quoted(folder)}",
        f"{called_as()} plugins",
    ):
        click.echo(f"  {line}", err=True)
