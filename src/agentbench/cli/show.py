"""`ab show`: show a run or an attempt."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from agentbench.cli.options import FILE, RUN_OR_BUNDLE, given_path, json_option

if TYPE_CHECKING:
    from collections.abc import Sequence

    from agentbench.reports.sources import Run

EPILOG = """\b
Examples:
  ab show artifacts/runs/2026-…__demo__baseline__none
  ab show RUN --task toy-median
  ab show RUN --task toy-median --repeat 2 --json
  ab show RUN --task toy-median --html attempt.html
  ab show run.tar.zst
"""


@click.command(epilog=EPILOG)
@click.argument("run", type=RUN_OR_BUNDLE)
@click.option("--task", metavar="ID", help="Show the attempts at this task.")
@click.option("--repeat", type=click.IntRange(1), help="Show only this repeat (with --task).")
@click.option("--html", "page", type=FILE, help="Write the attempt as a self-contained page (with --task).")
@json_option
def command(run: Path, *, task: str | None, repeat: int | None, page: Path | None, as_json: bool) -> None:
    """Show a run, or with --task the attempts at one task. The first line is the verdict."""
    from dataclasses import replace

    from agentbench.reports.card import attempt_card, run_card, select
    from agentbench.reports.json_parts import seals_json
    from agentbench.reports.sources import open_run
    from agentbench.reports.summary import summarise
    from agentbench.reports.summary_data import as_json as summary_json

    opened = replace(open_run(run), given=str(given_path(run)))
    records = select(opened, task, repeat)
    full = task is not None or repeat is not None or _alone(opened)
    if full or page is not None:
        opened = opened.with_audit(records)
    if page is not None:
        _export(opened, [record.attempt_id for record in records], page)
        return
    if as_json:
        import json

        value = {
            "run_dir": opened.given,
            "altered": seals_json(opened)["altered"],
            "signature": opened.signature or None,
            "summary": summary_json(summarise(opened)),
            "attempts": [record.model_dump(mode="json") for record in records],
        }
        click.echo(json.dumps(value, indent=2))
        return
    cards = [attempt_card(record, opened) for record in records] if full else [run_card(summarise(opened))]
    click.echo("\n\n".join(map(_coloured, cards)))


def _alone(run: Run) -> bool:
    """Return whether a run has one attempt and can have had no others, so that the attempt says more than a table."""
    return len(run.rows) == 1 and not run.mark_seals("") and (run.missing is None or run.missing.planned == 1)


def _export(run: Run, attempts: Sequence[str], page: Path) -> None:
    from agentbench.core.errors import InputError
    from agentbench.reports.html.page import export_attempt

    if len(attempts) != 1:
        msg = f"--html needs exactly one attempt, {len(attempts)} match"
        raise InputError(msg, remedy="select one with --task and --repeat, or use `ab report summary --format html`")
    (row,) = (row for row in run.rows if row.attempt_id == attempts[0])
    try:
        page.write_text(export_attempt(run, row), encoding="utf-8")
    except OSError as error:
        raise InputError(f"cannot write {page}: {error.strerror or error}") from error
    click.echo(str(page))


def _coloured(card: str) -> str:
    """Colour the first line on a terminal, unless NO_COLOR is set."""
    from agentbench.cli.progress import COLOURS, colours_verdicts

    if not colours_verdicts(sys.stdout):
        return card
    first, newline, rest = card.partition("\n")
    return click.style(first, fg=COLOURS.get(first.split(" ", 1)[0]), bold=True) + newline + rest
