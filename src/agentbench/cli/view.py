"""`ab view`: serve the live web view."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Event

import click

from agentbench.cli.options import FOLDER, json_option, tasks_dir_option

EPILOG = """\b
Examples:
  ab view
  ab view artifacts/runs study --open
  ab view --read-only --port 8800
  ab view --host 0.0.0.0 --port 8800 --read-only

PATH is a run directory, a folder of runs or a pilot; the default is artifacts/runs. The printed address contains a token: anyone who
has it can see the runs and, unless the view is read-only, decide about them. Needs `pip install 'agentbench-harness[view]'`.
"""


@click.command(epilog=EPILOG)
@click.argument("paths", metavar="[PATH…]", nargs=-1, type=FOLDER)
@click.option("--host", default="127.0.0.1", show_default=True, help="Address to listen on.")
@click.option("--port", type=click.IntRange(0, 65535), default=0, help="Port to listen on [default: any free port].")
@click.option("--read-only", is_flag=True, help="Show everything, allow no action.")
@click.option("--open", "open_page", is_flag=True, help="Open the page in the browser.")
@tasks_dir_option
@json_option
def command(
    paths: tuple[Path, ...],
    *,
    host: str,
    port: int,
    read_only: bool,
    open_page: bool,
    tasks_dir: Path,
    as_json: bool,
) -> None:
    """Watch running work, explore runs and decide in the browser. Ctrl-C ends it.

    Listens on this machine only, unless --host says otherwise.
    """
    from agentbench.cli.settings import runs_folder
    from agentbench.view.server import open_server

    folders = paths or (runs_folder(),)
    if not paths:
        folders[0].mkdir(parents=True, exist_ok=True)
    server = open_server(folders, host=host, port=port, read_only=read_only, tasks_dir=tasks_dir)
    if as_json:
        click.echo(json.dumps({"url": server.url}))
    else:
        click.echo(server.url)
        click.echo("Press Ctrl-C to end the view.", err=True)
    if not server.loopback:
        click.echo(
            f"warning: other machines can reach {host}; anyone with this address and its token can use the view, and the "
            "connection is not encrypted",
            err=True,
        )
    if open_page:
        click.launch(server.url)
    try:
        server.serve()
    except KeyboardInterrupt:
        return


@contextmanager
def shown_in_browser(out: Path, tasks_dir: Path) -> Iterator[None]:
    """Show the run that is made in this block. On a terminal the view then stays open until Ctrl-C."""
    from agentbench.view.server import background_server, open_server

    out.mkdir(parents=True, exist_ok=True)
    server = open_server([out], tasks_dir=tasks_dir)
    url = f"{server.url}#/latest"
    click.echo(f"View: {url}", err=True)
    click.launch(url)
    with background_server(server):
        yield
        if sys.stdin.isatty() and sys.stderr.isatty():
            click.echo("The run is finished. The view stays open until Ctrl-C.", err=True)
            try:
                Event().wait()
            except KeyboardInterrupt:
                return
