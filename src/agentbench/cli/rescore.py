"""`ab rescore`: compute a run's results under other weights or caps."""

from __future__ import annotations

from pathlib import Path

import click

from agentbench.cli.options import FILE, RUN, json_option

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
    from agentbench.reports import rescore as report
    from agentbench.reports.csv_results import DEVIATIONS, joined_deviations
    from agentbench.reports.deviations import run_deviations
    from agentbench.reports.escape import code, csv_text, markdown_table
    from agentbench.reports.json_parts import seals_json
    from agentbench.reports.provenance import read_provenance
    from agentbench.reports.sources import open_run

    assumption = report.read_assumption(weights, caps)
    opened = open_run(run)
    attempts = report.rescore(opened, assumption)
    opened = opened.with_audit(attempt.record for attempt in attempts)
    deviations = run_deviations(opened, read_provenance(opened.path, opened.rows))
    rows = [report.as_json(attempt) for attempt in attempts]
    decision = opened.mark(report.headline(attempts, assumption))
    if as_json or form == "json":
        import json

        click.echo(
            json.dumps(
                {
                    "label": report.LABEL,
                    "assumed": assumption.text,
                    "decision": decision,
                    **seals_json(opened),
                    "deviations": list(deviations),
                    "attempts": rows,
                },
                indent=2,
            )
        )
        return
    if form == "csv":
        head = (*rows[0], DEVIATIONS) if rows else ("label",)
        joined = joined_deviations(deviations)
        click.echo(csv_text(head, [{**row, DEVIATIONS: joined} for row in rows]), nl=False)  # type: ignore[dict-item]  # all values are scalars
        return
    cells = [
        (
            code(attempt.record.task_id),
            str(attempt.record.repeat),
            _yes_no(attempt.record.result.passed),
            _yes_no(attempt.passed),
            _number(attempt.record.score),
            _number(attempt.score),
            attempt.termination or "unknown",
            code(attempt.why),
        )
        for attempt in attempts
    ]
    head = ("task", "repeat", "passed", f"{report.LABEL} passed", "score", f"{report.LABEL} score", "ends as", "why")
    lines = [f"# {decision}", "", *markdown_table(head, cells)]
    if deviations:
        lines += ["", "Protocol deviations:", "", *(f"- {code(text)}" for text in deviations)]
    click.echo("\n".join(lines))


def _yes_no(passed: bool | None) -> str:
    return "unknown" if passed is None else "yes" if passed else "no"


def _number(score: float | None) -> str:
    return "" if score is None else f"{score:.3f}"
