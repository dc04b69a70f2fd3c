"""`ab adjudicate RUN`: note what a person found out about an attempt. Verdicts stay as they are."""

from __future__ import annotations

import getpass
from pathlib import Path
from typing import TYPE_CHECKING

import click

from agentbench.cli.options import json_option

if TYPE_CHECKING:
    from agentbench.reports.record_rows import Row

EPILOG = """\b
Examples:
  ab adjudicate RUN --attempt 01J… --truth correct --minutes 6
  ab adjudicate RUN --attempt 01J… --truth incorrect --category invariant_violation --minutes 12 --note "loses the last row"
  ab adjudicate RUN --list

False positives (correct but rejected) and false negatives (a defect that passed) then stand in `ab report summary`, per
category, with the minutes that finding them took.
"""


@click.command(epilog=EPILOG)
@click.argument("run", type=click.Path(path_type=Path))
@click.option("--attempt", metavar="ID", help="The attempt's id (see `ab show`), or TASK or TASK@REPEAT.")
@click.option("--truth", type=click.Choice(["correct", "incorrect", "undecidable"]), help="What the patch really is.")
@click.option(
    "--category", help="What an error belongs to; default: the failure reason. Needed for a defect that passed."
)
@click.option("--minutes", type=click.FloatRange(0, 100_000), help="Time the review took.")
@click.option("--reviewer", help="Who looked; default: your user name.")
@click.option("--note", default="", help="Anything worth keeping.")
@click.option("--list", "listing", is_flag=True, help="What was found so far, and what still waits.")
@json_option
def command(
    run: Path,
    *,
    attempt: str | None,
    truth: str | None,
    category: str | None,
    minutes: float | None,
    reviewer: str | None,
    note: str,
    listing: bool,
    as_json: bool,
) -> None:
    """Note the truth about an attempt, as a reviewer found it."""
    from agentbench.core.errors import InputError
    from agentbench.reports.adjudications import Finding, Truth, adjudicate
    from agentbench.reports.sources import open_run

    found = open_run(run)
    if listing:
        _list(found.path, as_json=as_json)
        return
    if attempt is None or truth is None or minutes is None:
        msg = "an adjudication needs --attempt, --truth and --minutes"
        raise InputError(msg, remedy="`ab adjudicate RUN --list` shows what waits for one")
    row = _select(found.rows, attempt)
    who = reviewer or _user()
    done = adjudicate(found.path, row, Finding(Truth(truth), who, minutes, category, note))
    if as_json:
        click.echo(done.model_dump_json(indent=2))
        return
    from agentbench.reports.escape import plain

    click.echo(
        plain(
            f"{done.truth}: {row.task}, repeat {row.repeat} ({'passed' if row.passed else row.reason}), {minutes:g} minutes by {who}"
        )
    )


def _user() -> str:
    try:
        return getpass.getuser()
    except (OSError, KeyError, ImportError):
        return "unknown"


def _select(rows: tuple[Row, ...], wanted: str) -> Row:
    from agentbench.core.errors import InputError
    from agentbench.reports.escape import plain

    task, _, repeat = wanted.rpartition("@")
    fit = [
        row for row in rows if wanted in {row.attempt_id, row.task} or (task == row.task and repeat == str(row.repeat))
    ]
    exact = [row for row in fit if row.attempt_id == wanted] or fit
    if len(exact) != 1:
        problem = f"{len(exact)} attempts match" if exact else "no finished attempt matches"
        msg = f"{problem} '{plain(wanted, 100)}'"
        raise InputError(msg, remedy="`ab adjudicate RUN --list` shows ids")
    return exact[0]


def _list(folder: Path, *, as_json: bool) -> None:
    import json

    from agentbench.reports.adjudications import read_adjudications
    from agentbench.reports.escape import columns, plain
    from agentbench.reports.sources import open_run

    done = read_adjudications(folder)
    known = {one.attempt_id for one in done}
    rows = open_run(folder).rows
    waiting = [row for row in rows if row.needs_review and row.attempt_id not in known]
    if as_json:
        document = {
            "adjudications": [one.model_dump(mode="json") for one in done],
            "waiting": [row.attempt_id for row in waiting],
        }
        click.echo(json.dumps(document, indent=2))
        return
    click.echo(f"{len(done)} adjudicated, {sum(one.minutes for one in done):g} minutes; {len(waiting)} waiting")
    by_id = {row.attempt_id: row for row in rows}
    table = [
        (
            plain(by_id[one.attempt_id].task, 60) if one.attempt_id in by_id else "",
            str(one.truth),
            plain(one.category, 40),
            plain(one.reviewer, 40),
            one.attempt_id,
        )
        for one in done
    ]
    table += [
        (plain(row.task, 60), "waiting", str(row.reason or "passed"), "", row.attempt_id) for row in waiting[:200]
    ]
    for line in columns(table, "  "):
        click.echo(line)
