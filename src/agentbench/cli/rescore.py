"""`ab rescore RUN`: what a run would have been under other weights or tighter caps. Changes nothing."""

from __future__ import annotations

from pathlib import Path

import click

from agentbench.cli.options import FILE, json_option

EPILOG = """\b
Examples:
  ab rescore RUN --weights weights.yaml       {minimal: 0.6, trace: 0.2, maintainability: 0.2}
  ab rescore RUN --caps caps.yaml             {active_sec: 120, tool_calls: 40, tokens: 500000, usd: 1.0}

Computed from manifests and traces alone and labelled COUNTERFACTUAL in every format; the run directory stays as it is.
"""


@click.command(epilog=EPILOG)
@click.argument("run", type=click.Path(path_type=Path))
@click.option("--weights", type=FILE, help="Other weights of the graded dimensions: scores change, verdicts do not.")
@click.option("--caps", type=FILE, help="Tighter caps: attempts that needed more would not have passed.")
@click.option(
    "--format", "form", type=click.Choice(["md", "csv", "json"]), default="md", show_default=True, help="What to print."
)
@json_option
def command(run: Path, *, weights: Path | None, caps: Path | None, form: str, as_json: bool) -> None:
    """Suppose other weights or caps, and say what the run would have been. Always a counterfactual."""
    from agentbench.reports import rescore as report
    from agentbench.reports.escape import code, csv_text, markdown_table
    from agentbench.reports.sources import open_run

    assumed = report.read_assumption(weights, caps)
    found = report.rescore(open_run(run), assumed)
    rows = [report.as_json(one) for one in found]
    if as_json or form == "json":
        import json

        click.echo(
            json.dumps(
                {
                    "label": report.LABEL,
                    "assumed": assumed.text,
                    "decision": report.headline(found, assumed),
                    "attempts": rows,
                },
                indent=2,
            )
        )
        return
    if form == "csv":
        head = tuple(rows[0]) if rows else ("label",)
        click.echo(csv_text(head, rows), nl=False)  # type: ignore[arg-type]  # rows hold scalars only
        return
    cells = [
        (
            code(one.record.task_id),
            str(one.record.repeat),
            _word(one.record.result.passed),
            _word(one.passed),
            _number(one.record.score),
            _number(one.score),
            code(one.why),
        )
        for one in found
    ]
    head = ("task", "repeat", "passed", f"{report.LABEL} passed", "score", f"{report.LABEL} score", "why")
    click.echo("\n".join([f"# {report.headline(found, assumed)}", "", *markdown_table(head, cells)]))


def _word(passed: bool | None) -> str:
    return "cannot be told" if passed is None else "yes" if passed else "no"


def _number(score: float | None) -> str:
    return "" if score is None else f"{score:.3f}"
