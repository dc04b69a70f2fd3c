"""`ab config`: show the defaults of common options and where they come from."""

from __future__ import annotations

import json
from pathlib import Path

import click

from agentbench.cli.options import json_option

EPILOG = """\b
Examples:
  ab config
  ab config show --json
  ab config path

\b
A file of defaults, in TOML:
  workers = 4
  sandbox = "bwrap"
  out = "build/runs"
  tasks-dir = "benchmarks"

Priority: command line, environment (AB_WORKERS, AB_OUT, …), agentbench.toml in the working directory, the user's file.
"""


@click.group(epilog=EPILOG, invoke_without_command=True)
@json_option
@click.pass_context
def command(context: click.Context, *, as_json: bool) -> None:
    """Show the configuration. Without a command, the same as `ab config show`."""
    if context.invoked_subcommand is None:
        context.invoke(show_command, as_json=as_json)
    elif as_json:
        raise click.UsageError(f"--json: write it after {context.invoked_subcommand}.")


@command.command("show", epilog=EPILOG)
@json_option
def show_command(*, as_json: bool) -> None:
    """Show the defaults of common options, with the origin of each. Secrets are not shown."""
    from agentbench.cli.settings import read_settings
    from agentbench.core.package_settings import without_credentials
    from agentbench.core.text import printable
    from agentbench.reports.escape import columns

    settings = read_settings().values()
    shown = {item.key.name: "set" if item.key.secret and item.value else item.value for item in settings}
    shown["notify"] = without_credentials(str(shown["notify"])) if shown["notify"] else None
    if as_json:
        values = [
            {"key": item.key.name, "value": shown[item.key.name], "origin": item.origin, "place": item.place or None}
            for item in settings
        ]
        click.echo(json.dumps({"settings": values, "files": _files()}, indent=2))
        return
    rows = [
        (item.key.name, "-" if item.value is None else str(shown[item.key.name]), item.place or item.origin)
        for item in settings
    ]
    for line in columns([("KEY", "VALUE", "ORIGIN"), *rows]):
        click.echo(printable(line))


@command.command("path", epilog=EPILOG)
@json_option
def path_command(*, as_json: bool) -> None:
    """Print the files that are read: the user's and the project's."""
    files = _files()
    if as_json:
        click.echo(json.dumps({"files": files}, indent=2))
        return
    for file in files:
        click.echo(f"{file['kind']}: {file['path']}{'' if file['exists'] else ' (does not exist)'}")


def _files() -> list[dict[str, object]]:
    from agentbench.cli.settings import PROJECT_FILE, user_file

    paths = {"user": user_file(), "project": Path(PROJECT_FILE).absolute()}
    return [{"kind": kind, "path": str(path), "exists": path.is_file()} for kind, path in paths.items()]
