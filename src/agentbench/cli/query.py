"""`ab query`: query records and events of runs with SQL."""

from __future__ import annotations

from pathlib import Path

import click

from agentbench.cli.options import RUN, json_option

MAX_WARNINGS = 20

EPILOG = """\b
Examples:
  ab query "select variant, count(*), avg(passed::int) from attempts where final group by all" RUN_A RUN_B
  ab query "select type, count(*) n from events group by type order by n desc" RUN --format csv
  ab query "select task_id, check_id, why from checks where outcome = 'fail'" artifacts/runs/* --format json

\b
Views:
  attempts   one row per attempt: run_dir, task_id, variant, repeat, passed, failure_reason, score, cost, …, record (JSON);
             final is false for attempts that a later one supersedes;
             retry_of names the run whose attempts `ab retry` repeated
  checks     one row per acceptance check: task_id, check_id, outcome, assurance, why, failing_tests
  events     one row per event: run_dir, task_dir, seq, happened_at, type, actor, payload (JSON)

Needs DuckDB: pip install 'agentbench-harness[query]'. Only read-only statements are allowed.
"""


@click.command(epilog=EPILOG)
@click.argument("sql")
@click.argument("runs", nargs=-1, required=True, type=RUN)
@click.option(
    "--format",
    "form",
    type=click.Choice(["table", "csv", "json"]),
    default="table",
    show_default=True,
    help="Output format.",
)
@json_option
def command(sql: str, runs: tuple[Path, ...], *, form: str, as_json: bool) -> None:
    """Run a read-only SQL statement over one or more run directories."""
    from agentbench.reports import query as report
    from agentbench.reports.escape import columns, csv_text, plain
    from agentbench.reports.number_format import plural

    answer = report.ask(runs, sql)
    for record in answer.altered[:MAX_WARNINGS]:
        click.echo(f"ALTERED: {record}, see `ab verify`", err=True)
    for run in answer.unsealed[:MAX_WARNINGS]:
        click.echo(
            f"NOT SEALED: {plain(run, 200)} has records without a seal that shows whether they were edited", err=True
        )
    for retry, repeated in answer.repeated[:MAX_WARNINGS]:
        click.echo(f"note: {plain(retry, 200)} repeats attempts of {plain(repeated, 200)}", err=True)
    if answer.superseded:
        superseded = plural(answer.superseded, "superseded attempt")
        click.echo(f"note: the runs have {superseded}, which `where final` leaves out", err=True)
    if answer.repeated:
        click.echo("note: `where final and retry_of is null` counts every attempt once", err=True)
    if as_json or form == "json":
        import json

        click.echo(json.dumps(report.as_json(answer), indent=2))
        return
    cells = [[_text(report.plain_value(value)) for value in row] for row in answer.rows]
    if form == "csv":
        names = [
            f"{name}_{index}" if answer.columns.index(name) != index else name
            for index, name in enumerate(answer.columns)
        ]
        click.echo(csv_text(names, [dict(zip(names, row, strict=True)) for row in cells]), nl=False)
        return
    table = [[plain(name, 60) for name in answer.columns], *([plain(cell, 100) for cell in row] for row in cells)]
    for line in columns(table):
        click.echo(line)
    click.echo(f"{len(cells)} row{'' if len(cells) == 1 else 's'}", err=True)


def _text(value: object) -> str:
    if isinstance(value, dict | list):
        import json

        return json.dumps(value)
    return "" if value is None else str(value)
