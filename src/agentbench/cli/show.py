"""`ab show RUN`: a run or an attempt as a card."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from agentbench.cli.options import FILE, json_option

if TYPE_CHECKING:
    from collections.abc import Sequence

    from agentbench.reports.sources import Run

EPILOG = """\b
Examples:
  ab show artifacts/runs/2026-…__demo__baseline__none
  ab show RUN --task toy-median
  ab show RUN --task toy-median --repeat 2 --json
  ab show RUN --task toy-median --html attempt.html      one file to send to somebody
"""

COLOURS = {"PASS": "green", "FAIL": "red", "ERROR": "yellow", "INVALID": "yellow"}


@click.command(epilog=EPILOG)
@click.argument("run", type=click.Path(path_type=Path))
@click.option("--task", metavar="ID", help="One task's attempts in full.")
@click.option("--repeat", type=click.IntRange(1), help="With --task: only this repeat.")
@click.option("--html", "page", type=FILE, help="With --task: write the attempt as one self-contained page instead.")
@json_option
def command(run: Path, *, task: str | None, repeat: int | None, page: Path | None, as_json: bool) -> None:
    """Show a run, or with --task the attempts at one task. The decision is in the first line."""
    from agentbench.reports.card import attempt_card, run_card, select
    from agentbench.reports.sources import open_run
    from agentbench.reports.summary import as_json as summary_json
    from agentbench.reports.summary import summarise

    found = open_run(run)
    chosen = select(found, task, repeat)
    if page is not None:
        _export(found, [one.attempt_id for one in chosen], page)
        return
    if as_json:
        import json

        value = {
            "run_dir": str(found.path),
            "summary": summary_json(summarise(found)),
            "attempts": [record.model_dump(mode="json") for record in chosen],
        }
        click.echo(json.dumps(value, indent=2))
        return
    # A run of one attempt is its attempt: nobody wants a table of one line.
    in_full = task is not None or repeat is not None or len(found.rows) == 1
    cards = [attempt_card(record, found.path) for record in chosen] if in_full else [run_card(summarise(found))]
    click.echo("\n\n".join(map(_coloured, cards)))


def _export(run: Run, attempts: Sequence[str], page: Path) -> None:
    from agentbench.core.errors import InputError
    from agentbench.reports.html.page import export_attempt

    if len(attempts) != 1:
        msg = f"--html writes one attempt, and {len(attempts)} fit"
        raise InputError(msg, remedy="name one with --task and --repeat; `ab report summary --format html` shows all")
    (row,) = (one for one in run.rows if one.attempt_id == attempts[0])
    try:
        page.write_text(export_attempt(run, row), encoding="utf-8")
    except OSError as error:
        msg = f"cannot write {page}: {error.strerror or error}"
        raise InputError(msg) from error
    click.echo(str(page))


def _coloured(card: str) -> str:
    """The decision in colour, on a terminal that wants it."""
    if not sys.stdout.isatty() or os.environ.get("NO_COLOR"):
        return card
    first, newline, rest = card.partition("\n")
    return click.style(first, fg=COLOURS.get(first.split(" ", 1)[0]), bold=True) + newline + rest
