"""`ab rescore`: compute a run's results under other weights or caps."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from agentbench.cli.options import FILE, RUN, json_option

if TYPE_CHECKING:
    from agentbench.reports.rescore import Rescored
    from agentbench.reports.sources import Run

EPILOG = """\b
Examples:
  ab rescore RUN --weights weights.yaml
  ab rescore RUN --caps caps.yaml

\b
weights.yaml: {minimal: 0.6, trace: 0.2, maintainability: 0.2}
caps.yaml: {active_sec: 120, tool_calls: 40, tokens: 500000, usd: 1.0}

Results come from manifests and traces alone and are labelled COUNTERFACTUAL. The run directory does not change.
"""


@click.command(epilog=EPILOG)
@click.argument("run", type=RUN)
@click.option("--weights", type=FILE, help="Weights of the score; verdicts do not change.")
@click.option("--caps", type=FILE, help="Caps, applied as in a real run.")
@click.option(
    "--format", "form", type=click.Choice(["md", "csv", "json"]), default="md", show_default=True, help="Output format."
)
@json_option
def command(run: Path, *, weights: Path | None, caps: Path | None, form: str, as_json: bool) -> None:
    """Compute counterfactual results of a run under other weights or caps."""
    import json

    from agentbench.reports import rescore as report
    from agentbench.reports.deviations import run_deviations
    from agentbench.reports.json_parts import seals_json
    from agentbench.reports.provenance import read_provenance
    from agentbench.reports.sources import open_run

    assumption = report.read_assumption(weights, caps)
    opened = open_run(run)
    attempts = report.rescore(opened, assumption)
    opened = opened.with_audit(attempt.record for attempt in attempts)
    deviations = run_deviations(opened, read_provenance(opened.path, opened.rows))
    decision = opened.mark(report.headline(attempts, assumption))
    if as_json or form == "json":
        value = {
            "label": report.LABEL,
            "assumed": assumption.text,
            "decision": decision,
            **seals_json(opened),
            "deviations": list(deviations),
            "attempts": list(map(report.as_json, attempts)),
        }
        click.echo(json.dumps(value, indent=2))
    elif form == "csv":
        click.echo(_csv(opened, attempts, deviations), nl=False)
    else:
        click.echo(_markdown(decision, attempts, deviations))


def _csv(run: Run, attempts: Sequence[Rescored], deviations: Sequence[str]) -> str:
    from agentbench.reports.csv_results import DEVIATIONS, joined_deviations
    from agentbench.reports.escape import csv_text
    from agentbench.reports.rescore import as_json

    joined = joined_deviations(deviations)
    rows = [
        {**as_json(attempt), DEVIATIONS: joined, **run.seal_cells(attempt.record.attempt_id)} for attempt in attempts
    ]
    return csv_text(tuple(rows[0]) if rows else ("label",), rows)  # type: ignore[arg-type]  # all values are scalars


def _markdown(decision: str, attempts: Sequence[Rescored], deviations: Sequence[str]) -> str:
    from agentbench.reports.escape import code, markdown_table
    from agentbench.reports.rescore import LABEL

    cells = [
        (
            code(attempt.record.task_id),
            str(attempt.record.repeat),
            _result(attempt.recorded_value),
            "unknown" if attempt.passed is None else _result(attempt.value),
            _number(attempt.record.score),
            _number(attempt.score),
            attempt.termination or "unknown",
            code(attempt.why),
        )
        for attempt in attempts
    ]
    head = ("task", "repeat", "passed", f"{LABEL} passed", "score", f"{LABEL} score", "ends as", "why")
    lines = [f"# {decision}", "", *markdown_table(head, cells)]
    if deviations:
        lines += ["", "Protocol deviations:", "", *(f"- {code(text)}" for text in deviations)]
    return "\n".join(lines)


def _result(value: int | None) -> str:
    return "not counted" if value is None else "yes" if value else "no"


def _number(score: float | None) -> str:
    return "" if score is None else f"{score:.3f}"
