"""Data embedded in the page: runs, one short row per attempt, the numbers of the charts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING

from agentbench import __version__
from agentbench.core.canonical import Json
from agentbench.core.ids import now_iso
from agentbench.core.reasons import Outcome, Reason, RunStatus
from agentbench.record.headline import headline
from agentbench.record.schema import AttemptRecord
from agentbench.reports.html.bounded import bounded, bounded_members
from agentbench.reports.number_format import finite, total
from agentbench.reports.record_rows import Row
from agentbench.reports.sources import Run
from agentbench.reports.summary import Summary
from agentbench.reports.summary_data import as_json as summary_json
from agentbench.reports.summary_markdown import enforced_lines, reproducibility_lines
from agentbench.verdict.terms import published_rubric

if TYPE_CHECKING:
    from agentbench.reports.gate import GateVerdict

COLUMNS = (
    "run", "id", "task", "repeat", "kind", "reason", "headline", "why", "gates", "workspace", "judge", "badge", "score", "duration",
    "cost", "review", "assurance", "truth",
)  # fmt: skip
MAX_LISTED = 400
"""Tasks, strata and similar items listed per run."""
_LETTERS = {Outcome.PASS: "p", Outcome.FAIL: "f", Outcome.ERROR: "e"}


def attempt_row(number: int, run: Run, row: Row, record: AttemptRecord, truth: str | None) -> list[Json]:
    """Return the row of one attempt, in the order of COLUMNS."""
    line = headline(record)
    _, _, why = line.partition(": ")
    reason = f"{row.reason}: {why}" if row.reason and why else str(row.reason or "")
    return [
        number,
        row.attempt_id,
        bounded(row.task, text=300),
        row.repeat,
        kind_of(row),
        row.reason,
        bounded(run.mark_attempt(row.attempt_id, line), text=400),
        bounded(run.mark_attempt(row.attempt_id, reason), text=300),
        "".join(_LETTERS[outcome] for outcome in row.gates),
        bounded(row.workspace_verdict, text=20),
        bounded(row.judge, text=20),
        bounded(row.badge, text=60),
        row.score,
        row.duration,
        finite(row.cost.known_total),
        int(row.needs_review),
        row.assurance,
        truth,
    ]


KINDS = ("pass", "fail", "error", "invalid")
"""As in `views.js`."""


def kind_of(row: Row) -> int:
    """Return the index in KINDS: 0 for passed, 1 failed, 2 error, 3 invalid."""
    if row.passed:
        return 0
    if row.status is RunStatus.INVALID:
        return 3
    return 2 if row.reason is Reason.ACCEPTANCE_ERROR else 1


def run_json(summary: Summary, name: str) -> dict[str, Json]:
    """Return the numbers of a run, without those that the list of attempts already has."""
    run, rows = summary.run, summary.run.rows
    numbers = summary_json(summary)
    for key in ("by_task", "needs_review", "run_dir", "hardest"):
        numbers.pop(key)
    costs = [row.cost.total for row in rows if row.cost.known_total is not None]
    mean_cost = total(costs) / len(costs) if costs else 0.0
    mean_hours = total([row.duration for row in rows]) / 3600 / len(rows) if rows else 0.0
    return {
        **bounded_members(numbers, text=500, items=MAX_LISTED),
        "name": bounded(name, text=120),
        "folder": bounded(run.path.resolve().name, text=300),
        "path": bounded(str(run.path), text=1000),
        "agents": bounded(sorted({row.agent for row in rows}), text=120),
        "models": bounded(sorted({row.model for row in rows if row.model}), text=120),
        "versions": bounded(sorted({row.harness_version for row in rows}), text=120),
        "tokens": sum(row.usage.prompt_tokens + row.usage.completion_tokens for row in rows),
        "enforced": bounded([_unmarked(line) for line in enforced_lines(summary)], text=500),
        "artifacts": bounded([_unmarked(line) for line in reproducibility_lines(summary)], text=500),
        "projection": {
            "per_attempt": finite(mean_cost) or 0.0,
            "hours": finite(mean_hours) or 0.0,
            "attempts": len(rows),
        },
    }


def _unmarked(line: str) -> str:
    """Remove the Markdown of a list item."""
    return line.removeprefix("- ").replace("`", "")


def names_of(summaries: Sequence[Summary]) -> list[str]:
    """Return a short name per run: its variant, with the folder if variants repeat."""
    variants = [
        ", ".join(sorted({row.variant for row in summary.run.rows})) or summary.run.path.name for summary in summaries
    ]
    if len(set(variants)) == len(variants):
        return variants
    return [
        f"{variant} ({summary.run.path.resolve().name[:19]} · {number})"
        for number, (variant, summary) in enumerate(zip(variants, summaries, strict=True), 1)
    ]


def page_json(
    summaries: Sequence[Summary],
    attempts: Sequence[Sequence[Json]],
    reviews: dict[str, Json],
    comparison: Json,
    gate: GateVerdict | None,
) -> dict[str, Json]:
    names = names_of(summaries)
    runs = [run_json(summary, name) for summary, name in zip(summaries, names, strict=True)]
    units = {spending.unit for summary in summaries for spending in summary.spending if spending.total > 0}
    unit = next(iter(units)) if len(units) == 1 else "hours"
    for run in runs:
        projection = run["projection"]
        if unit == "hours" and isinstance(projection, dict):
            projection["per_attempt"] = projection["hours"]
    return {
        "title": f"{' vs. '.join(names)} · AgentBench" if comparison else f"{', '.join(names)[:120]} · AgentBench",
        "made": now_iso(),
        "version": __version__,
        "columns": list(COLUMNS),
        "runs": list(runs),
        "attempts": [list(row) for row in attempts],
        "reviews": reviews,
        "weights": list(_weights(summaries, names)),
        "projection": {"unit": unit},
        "comparison": comparison,
        "gate": gate.as_json() if gate else None,
    }


def _weights(summaries: Sequence[Summary], names: Sequence[str]) -> Iterator[dict[str, Json]]:
    """Yield the weights that scores were computed with, from the manifests, with the runs that used them."""
    used: dict[tuple[tuple[str, float], ...], dict[str, int]] = {}
    published = asdict(published_rubric().weights)
    for summary, name in zip(summaries, names, strict=True):
        for origin in summary.provenance.origins.values():
            runs = used.setdefault(tuple((origin.weights or published).items()), {})
            runs[name] = runs.get(name, 0) + 1
    for weights, runs in used.items():
        yield {"weights": dict(weights), "runs": bounded(list(runs), text=120), "tasks": sum(runs.values())}
