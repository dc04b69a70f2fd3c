"""`ab report`: summaries and paired comparisons of finished runs. Reads, never runs."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from agentbench.cli.options import json_option

if TYPE_CHECKING:
    from agentbench.reports.paired import PairedReport
    from agentbench.reports.summary import Summary

SUMMARY_EPILOG = """\b
Examples:
  ab report summary --run artifacts/runs/2026-…__demo__baseline__none
  ab report summary --run RUN --format junit > junit.xml
  ab report summary --run RUN --format csv > results.csv       (can be read back by `ab report paired`)
"""
PAIRED_EPILOG = """\b
Examples:
  ab report paired --run-a RUN_A --run-b RUN_B
  ab report paired --run-a ours.csv --run-b theirs.csv --format json
  ab report paired --run-a all.csv#baseline --run-b all.csv#packer

A and B are run directories, or CSV files with the columns task,method,repeat,outcome and perhaps cost; outcome is
pass, fail, error, invalid or invalid:CAUSE. The first line is the decision, at 0.05 two-sided: McNemar's mid-p with one
attempt per task, a sign-flip test over per-task means with repeats.
"""


@click.group("report")
def command() -> None:
    """Summaries and paired comparisons of runs."""


@command.command("summary", epilog=SUMMARY_EPILOG)
@click.option("--run", "run_dir", required=True, type=click.Path(path_type=Path), help="A run directory.")
@click.option(
    "--format",
    "form",
    type=click.Choice(["md", "csv", "json", "junit"]),
    default="md",
    show_default=True,
    help="What to print.",
)
@json_option
def summary(run_dir: Path, *, form: str, as_json: bool) -> None:
    """One run: both rates with their denominators, every attempt, why attempts did not pass."""
    from agentbench.reports.sources import open_run
    from agentbench.reports.summary import summarise

    click.echo(_summary_text(summarise(open_run(run_dir)), "json" if as_json else form), nl=False)


@command.command("paired", epilog=PAIRED_EPILOG)
@click.option(
    "--run-a", required=True, metavar="A", help="Run directory or CSV file; FILE.csv#METHOD picks one method."
)
@click.option("--run-b", required=True, metavar="B", help="The same for the other side.")
@click.option(
    "--method",
    type=click.Choice(["mcnemar"]),
    default="mcnemar",
    show_default=True,
    expose_value=False,
    help="The test.",
)
@click.option(
    "--rate",
    type=click.Choice(["contract", "acceptance"]),
    default="contract",
    show_default=True,
    help="Which success decides.",
)
@click.option("--across-versions", is_flag=True, help="Compare tasks whose contract differs; the report says so.")
@click.option(
    "--format", "form", type=click.Choice(["md", "csv", "json"]), default="md", show_default=True, help="What to print."
)
@json_option
def paired(run_a: str, run_b: str, *, rate: str, across_versions: bool, form: str, as_json: bool) -> None:
    """Two methods on the same tasks: decision, comparability, tests, and the tasks that differ."""
    from agentbench.reports.paired import compare_sides
    from agentbench.reports.sources import open_sides
    from agentbench.statistics.trials import Rate

    a, b = open_sides(run_a, run_b)
    report = compare_sides(a, b, rate=Rate(rate), across_versions=across_versions)
    click.echo(_paired_text(report, "json" if as_json else form), nl=False)


def _summary_text(found: Summary, form: str) -> str:
    from agentbench.reports import junit
    from agentbench.reports import summary as report

    if form == "json":
        return _json_text(report.as_json(found))
    makers = {"md": report.as_markdown, "csv": report.as_csv, "junit": junit.as_junit}
    return makers[form](found)


def _paired_text(found: PairedReport, form: str) -> str:
    from agentbench.reports import paired as report

    if form == "json":
        return _json_text(report.as_json(found))
    return report.as_csv(found) if form == "csv" else report.as_markdown(found)


def _json_text(value: object) -> str:
    import json

    return json.dumps(value, indent=2) + "\n"
