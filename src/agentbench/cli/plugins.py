"""`ab plugins`: list installed plug-ins."""

from __future__ import annotations

import json

import click

from agentbench.cli.options import json_option

EPILOG = """\b
Examples:
  ab plugins
  ab plugins --json

Each plug-in is imported, to find out whether it works. `ab plugin new` writes the package of a new one.
"""


@click.command(epilog=EPILOG)
@json_option
def command(*, as_json: bool) -> None:
    """List installed plug-ins with their package, version and state."""
    from agentbench.api.extensions import EXTENSIONS
    from agentbench.core.text import printable
    from agentbench.plugins.discovery import PluginError, installed, load_plugin

    rows = []
    for kind, extensions in EXTENSIONS.items():
        for plugin in installed(kind):
            problem = ""
            try:
                load_plugin(plugin, extensions.built_in)
            except PluginError as error:
                problem = error.message
            rows.append((plugin, problem))
    if as_json:
        listed = [
            {
                "kind": plugin.kind,
                "name": plugin.name,
                "package": plugin.distribution,
                "version": plugin.version,
                "object": plugin.value,
                "state": "broken" if problem else "ok",
                "problem": problem or None,
            }
            for plugin, problem in rows
        ]
        click.echo(json.dumps({"plugins": listed}, indent=2))
        return
    if not rows:
        click.echo("No plug-ins are installed.")
        return
    width = max(len(f"{plugin.kind.words} {plugin.name}") for plugin, _ in rows)
    for plugin, problem in rows:
        state = f"broken: {problem}" if problem else "ok"
        click.echo(printable(f"{f'{plugin.kind.words} {plugin.name}':{width}}  {plugin.origin}  {state}"))
