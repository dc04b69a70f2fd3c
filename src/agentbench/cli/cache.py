"""`ab cache`: list or remove data kept between runs."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from agentbench.cli.options import Amount, json_option

if TYPE_CHECKING:
    from collections.abc import Sequence

    from agentbench.sandbox.environments.cache import Item

EPILOG = """\b
Examples:
  ab cache ls
  ab cache prune
  ab cache prune --max-gb 5
  ab cache prune --unused-days 30
  ab cache prune --all
"""
_DAY_SEC = 86_400


@click.group(epilog=EPILOG)
def command() -> None:
    """List or remove prepared environments, snapshots and mirrors.

    Data in use is never removed. Everything is rebuilt when needed. Failed setups are kept as `failed`, so that they
    are not repeated; `prune` removes them.
    """


@command.command("ls", epilog=EPILOG)
@json_option
def ls_command(as_json: bool) -> None:
    """List cached items, least recently used first."""
    from agentbench.sandbox.environments.cache import contents
    from agentbench.sandbox.state import default_state

    state = default_state()
    items = contents(state)
    if as_json:
        click.echo(_as_json("items", items, str(state)))
        return
    click.echo(f"{_size(sum(item.bytes for item in items))} in {len(items)} items in {state}")
    for item in items:
        click.echo(_line(item))


@command.command("prune", epilog=EPILOG)
@click.option("--max-gb", type=Amount(), help="Maximum size of prepared environments [default: 20].")
@click.option("--unused-days", type=Amount(), help="Also remove items not used for this many days.")
@click.option("--all", "everything", is_flag=True, help="Remove everything not in use.")
@json_option
def prune_command(max_gb: float | None, unused_days: float | None, everything: bool, as_json: bool) -> None:
    """Remove the least recently used prepared environments."""
    from agentbench.sandbox.environments.cache import prune
    from agentbench.sandbox.environments.layers import DEFAULT_BYTES
    from agentbench.sandbox.state import default_state

    state = default_state()
    removed = prune(
        state,
        max_bytes=DEFAULT_BYTES if max_gb is None else int(max_gb * 1e9),
        unused_sec=None if unused_days is None else unused_days * _DAY_SEC,
        everything=everything,
    )
    if as_json:
        click.echo(_as_json("removed", removed, str(state)))
        return
    click.echo(f"removed {_size(sum(item.bytes for item in removed))} in {len(removed)} items")
    for item in removed:
        click.echo(_line(item))


def _line(item: Item) -> str:
    from datetime import datetime

    from agentbench.core.text import printable

    used = datetime.fromtimestamp(item.used_at).astimezone().strftime("%Y-%m-%d %H:%M")
    text = f"  {item.kind:<9} {_size(item.bytes):>9}  {used}  {item.name[:32]}  {item.label}"
    return printable(text.rstrip() + ("  (in use)" if item.in_use else ""))


def _size(count: int) -> str:
    return f"{count / 1e9:.1f} GB" if count >= 10**9 else f"{count / 1e6:.1f} MB"


def _as_json(name: str, items: Sequence[Item], state: str) -> str:
    import json

    rows = [
        {
            "kind": item.kind,
            "name": item.name,
            "label": item.label,
            "bytes": item.bytes,
            "used_at": item.used_at,
            "in_use": item.in_use,
        }
        for item in items
    ]
    return json.dumps({"state": state, name: rows, "bytes": sum(item.bytes for item in items)}, indent=2)
