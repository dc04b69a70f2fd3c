"""`ab adjudicate`: record a reviewer's finding about an attempt. Verdicts do not change."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from agentbench.cli.options import RUN, json_option

if TYPE_CHECKING:
    from agentbench.record.schema import AttemptRecord
    from agentbench.reports.sources import Run

MAX_LISTED = 200
"""Attempts to review that are listed, because their logs are read for the reasons."""

EPILOG = """\b
Examples:
  ab adjudicate RUN --attempt 01J… --truth correct --minutes 6
  ab adjudicate RUN --attempt toy-median --truth incorrect \\
      --category invariant_violation --minutes 12 --note "loses the last row"
  ab adjudicate RUN --list

`ab report summary` then shows, per category, false positives (rejected with the category without having it) and
false negatives (not rejected with the category though they have it), with the minutes of review.
"""


class AdjudicateCommand(click.Command):
    """A command whose help lists the categories. They are read only when help is shown."""

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        from agentbench.verdict.taxonomy import taxonomy

        with formatter.section("Categories"):
            formatter.write_dl([(kind.id, kind.description) for kind in taxonomy().values()])
        super().format_epilog(ctx, formatter)


@click.command(cls=AdjudicateCommand, epilog=EPILOG)
@click.argument("run", type=RUN)
@click.option("--attempt", metavar="ID", help="Attempt id (see `ab show`), TASK or TASK@REPEAT.")
@click.option(
    "--truth",
    type=click.Choice(["correct", "incorrect", "undecidable"]),
    help="Whether the attempt should have passed.",
)
@click.option(
    "--category",
    "categories",
    multiple=True,
    metavar="ID",
    help="What is wrong with the patch, from the list below; repeat it for all that apply [default: what the attempt "
    "was rejected with]. Required for a defect that passed.",
)
@click.option("--minutes", type=click.FloatRange(0, 100_000), help="Duration of the review.")
@click.option("--reviewer", help="Name of the reviewer [default: your user name].")
@click.option("--note", default="", help="Comment.")
@click.option("--list", "listing", is_flag=True, help="List adjudications and attempts that need review.")
@json_option
def command(
    run: Path,
    *,
    attempt: str | None,
    truth: str | None,
    categories: tuple[str, ...],
    minutes: float | None,
    reviewer: str | None,
    note: str,
    listing: bool,
    as_json: bool,
) -> None:
    """Record whether the patch of an attempt is correct."""
    from agentbench.core.errors import InputError
    from agentbench.core.user_name import user_name
    from agentbench.reports.adjudications import Finding, Truth, adjudicate, read_adjudications
    from agentbench.reports.sources import open_run

    opened = open_run(run)
    if listing:
        _list(opened, as_json=as_json)
        return
    if attempt is None or truth is None or minutes is None:
        given = {"--attempt": attempt, "--truth": truth, "--minutes": minutes}
        missing = [name for name, value in given.items() if value is None]
        remedy = "use --list to show attempts that need review" if attempt is None else "see `ab adjudicate --help`"
        raise InputError(f"missing: {', '.join(missing)}", remedy=remedy)
    record = _select(opened, attempt)
    if alteration := opened.evidence_alteration(record):
        msg = f"{record.task_id}, repeat {record.repeat} was altered: {alteration}"
        raise InputError(msg, remedy="run `ab verify` to see what was changed")
    if doubt := opened.doubt(record.attempt_id):
        msg = f"{record.task_id}, repeat {record.repeat} {doubt}, so nothing shows whether its record was edited"
        raise InputError(msg, remedy="adjudicate it in a run directory that has its seals")
    name = reviewer or user_name()
    same = [
        item
        for item in read_adjudications(opened.path)
        if (item.reviewer, item.attempt_id) == (name, record.attempt_id)
    ]
    adjudication = adjudicate(opened.path, record, Finding(Truth(truth), name, minutes, categories, note))
    if as_json:
        click.echo(adjudication.model_dump_json(indent=2))
        return
    from agentbench.reports.escape import plain

    verdict = "passed" if record.result.passed else record.result.failure_reason
    named = f", {', '.join(adjudication.defects)}" if adjudication.defects else ""
    attempt = f"{record.task_id}, repeat {record.repeat} ({verdict})"
    click.echo(plain(f"{adjudication.truth}: {attempt}{named}, {minutes:g} minutes by {name}", 1000))
    for old in same:
        replaced = f"{old.truth}, {old.minutes:g} minutes by {name}"
        click.echo("  " + plain(f"replaces {replaced}: reports count the newest of a reviewer", 1000))


def _select(run: Run, wanted: str) -> AttemptRecord:
    from agentbench.core.errors import InputError
    from agentbench.reports.escape import plain

    task, _, repeat = wanted.rpartition("@")
    matches = [
        row
        for row in run.rows
        if wanted in {row.attempt_id, row.task} or (task == row.task and repeat == str(row.repeat))
    ]
    matches = [row for row in matches if row.attempt_id == wanted] or matches
    if len(matches) != 1:
        problem = f"{len(matches)} attempts match" if matches else "no finished attempt matches"
        raise InputError(f"{problem} '{plain(wanted, 100)}'", remedy="use --list to show ids")
    return run.records(matches)[0]


def _list(run: Run, *, as_json: bool) -> None:
    import json

    from agentbench.reports.adjudications import Agreement, read_adjudications, reviews, to_review
    from agentbench.reports.escape import columns, plain
    from agentbench.reports.json_parts import seals_json

    adjudications = read_adjudications(run.path)
    waiting = to_review(run.rows, adjudications)
    reasons = {record.attempt_id: _reasons(run, record) for record in run.records(waiting[:MAX_LISTED])}
    if as_json:
        document = {
            "adjudications": [adjudication.model_dump(mode="json") for adjudication in adjudications],
            "waiting": [row.attempt_id for row in waiting],
            "review_reasons": reasons,
            **seals_json(run),
        }
        click.echo(json.dumps(document, indent=2))
        return
    minutes = sum(adjudication.minutes for adjudication in adjudications)
    tasks = {row.attempt_id: row.task for row in run.rows}
    attempts = {adjudication.attempt_id for adjudication in adjudications}
    reviewed = reviews(adjudications, run.records([row for row in run.rows if row.attempt_id in attempts]))
    disputed = sum(review.agreement is Agreement.DISPUTED for review in reviewed)
    differ = f", {disputed} of them disputed" if disputed else ""
    click.echo(run.mark_seals(f"{len(attempts)} adjudicated ({minutes:g} minutes){differ}, {len(waiting)} to review"))
    table = [
        (
            plain(tasks.get(adjudication.attempt_id, ""), 60),
            str(adjudication.truth),
            plain(", ".join(adjudication.defects), 80),
            plain(adjudication.reviewer, 40),
            adjudication.attempt_id,
            "",
        )
        for adjudication in adjudications
    ]
    table += [
        (
            plain(row.task, 60),
            "to review",
            str(row.reason or "passed"),
            "",
            row.attempt_id,
            _why(reasons[row.attempt_id]),
        )
        for row in waiting[:MAX_LISTED]
    ]
    for line in columns(table, "  "):
        click.echo(line)
    if len(waiting) > MAX_LISTED:
        click.echo(f"  … and {len(waiting) - MAX_LISTED} more to review")


def _why(reasons: list[str]) -> str:
    from agentbench.reports.escape import plain

    return plain("; ".join(reasons), 300)


def _reasons(run: Run, record: AttemptRecord) -> list[str]:
    """Return why an attempt needs review, after a note if a file of it differs from its seal."""
    from agentbench.reports.card import review_lines

    altered = run.evidence_alteration(record)
    return [*([f"ALTERED: {altered}, see `ab verify`"] if altered else []), *review_lines(record, run.path)]
