"""What the page knows when it opens: runs, one short row per attempt, the comparison, the figures' numbers."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import takewhile

from agentbench import __version__
from agentbench.core.canonical import Json
from agentbench.core.ids import now_iso
from agentbench.core.reasons import Outcome, Reason, RunStatus
from agentbench.record.headline import headline
from agentbench.record.schema import AttemptRecord
from agentbench.reports.adjudications import Adjudication
from agentbench.reports.figures import finite, total
from agentbench.reports.gate import GateVerdict
from agentbench.reports.html.bounded import Room, bounded, bounded_members
from agentbench.reports.paired import PairedReport
from agentbench.reports.paired_data import as_json as paired_json
from agentbench.reports.record_rows import Row
from agentbench.reports.sources import Side
from agentbench.reports.summary import Summary
from agentbench.reports.summary_data import as_json as summary_json
from agentbench.reports.summary_text import enforced_lines, reproducibility_lines
from agentbench.verdict.terms import published_rubric

COLUMNS = (
    "run", "id", "task", "repeat", "kind", "reason", "headline", "why", "gates", "workspace", "judge", "badge", "score", "duration",
    "cost", "review", "assurance", "truth",
)  # fmt: skip
MOST_NAMED = 400
"""Tasks, strata and the like that a run's card lists."""
FLIP_BYTES = 2_000_000
MOST_LINKS = 5
"""Attempts at one task that a flip leads to."""
_LETTERS = {Outcome.PASS: "p", Outcome.FAIL: "f", Outcome.ERROR: "e"}


def attempt_row(run: int, row: Row, record: AttemptRecord, truth: str | None) -> list[Json]:
    """One attempt in the list."""
    line = headline(record)
    _, _, why = line.partition(": ")
    return [
        run,
        row.attempt_id,
        bounded(row.task, text=300),
        row.repeat,
        kind_of(row),
        row.reason,
        bounded(line, text=400),
        bounded(f"{row.reason}: {why}" if row.reason and why else str(row.reason or ""), text=300),
        "".join(_LETTERS[one] for one in row.gates),
        bounded(row.workspace_verdict, text=20),
        bounded(row.judge, text=20),
        bounded(row.badge, text=60),
        row.score,
        row.duration,
        finite(row.cost.total),
        int(row.needs_review),
        row.assurance,
        truth,
    ]


def kind_of(row: Row) -> int:
    """0 passed, 1 failed, 2 error, 3 invalid: as the headline says it."""
    if row.passed:
        return 0
    if row.status is RunStatus.INVALID:
        return 3
    return 2 if row.reason is Reason.ACCEPTANCE_ERROR else 1


def truths(found: Sequence[Adjudication]) -> dict[str, str]:
    """What people found, by attempt; reviewers who disagree are shown as such."""
    seen: dict[str, set[str]] = {}
    for one in found:
        seen.setdefault(one.attempt_id, set()).add(str(one.truth))
    return {attempt: words.pop() if len(words) == 1 else "disputed" for attempt, words in seen.items()}


def run_json(summary: Summary, name: str) -> dict[str, Json]:
    """A run's numbers, without what the list of attempts has anyway."""
    run, rows = summary.run, summary.run.rows
    found = summary_json(summary)
    for key in ("by_task", "needs_review", "run_dir", "hardest"):
        found.pop(key)
    mean_cost = total([row.cost.total for row in rows]) / len(rows) if rows else 0.0
    mean_hours = total([row.duration for row in rows]) / 3600 / len(rows) if rows else 0.0
    return {
        **bounded_members(found, text=500, items=MOST_NAMED),
        "name": bounded(name, text=120),
        "folder": bounded(run.path.resolve().name, text=300),
        "agents": bounded(sorted({row.agent for row in rows}), text=120),
        "models": bounded(sorted({row.model for row in rows if row.model}), text=120),
        "versions": bounded(sorted({row.harness_version for row in rows}), text=120),
        "tokens": sum(row.usage.prompt_tokens + row.usage.completion_tokens for row in rows),
        "enforced": bounded([_bare(line) for line in enforced_lines(summary)], text=500),
        "artifacts": bounded([_bare(line) for line in reproducibility_lines(summary)], text=500),
        "projection": {"per_attempt": finite(mean_cost) or 0.0, "hours": finite(mean_hours) or 0.0},
    }


def _bare(line: str) -> str:
    """A Markdown list item as plain words."""
    return line.removeprefix("- ").replace("`", "")


def names_of(summaries: Sequence[Summary]) -> list[str]:
    """A short name per run: its variant, or the folder where variants repeat."""
    variants = [", ".join(sorted({row.variant for row in one.run.rows})) or one.run.path.name for one in summaries]
    if len(set(variants)) == len(variants):
        return variants
    return [
        f"{variant} ({one.run.path.resolve().name[:19]} · {n})"
        for n, (variant, one) in enumerate(zip(variants, summaries, strict=True), 1)
    ]


def page_json(
    summaries: Sequence[Summary],
    attempts: Sequence[Sequence[Json]],
    reviews: dict[str, Json],
    comparison: dict[str, Json] | None,
    gate: GateVerdict | None,
) -> dict[str, Json]:
    names = names_of(summaries)
    runs = [run_json(one, name) for one, name in zip(summaries, names, strict=True)]
    costs = {unit.unit for one in summaries for unit in one.spending if unit.total > 0}
    unit = next(iter(costs)) if len(costs) == 1 else "hours"
    for run in runs:
        projection = run["projection"]
        if unit == "hours" and isinstance(projection, dict):
            projection["per_attempt"] = projection["hours"]
    weights = published_rubric().weights
    return {
        "title": f"{' against '.join(names)} · AgentBench" if comparison else f"{', '.join(names)[:120]} · AgentBench",
        "made": now_iso(),
        "version": __version__,
        "columns": list(COLUMNS),
        "runs": list(runs),
        "attempts": [list(one) for one in attempts],
        "reviews": reviews,
        "weights": {"minimal": weights.minimal, "trace": weights.trace, "maintainability": weights.maintainability},
        "projection": {"unit": unit},
        "comparison": comparison,
        "gate": gate.as_json() if gate else None,
    }


def comparison_json(report: PairedReport, index: dict[tuple[str, str], int]) -> dict[str, Json]:
    """The comparison with attempts named by their place in the list; `index`: (run folder, attempt id) to place."""
    told = paired_json(report)
    told.pop("flips")
    found = bounded_members(told, text=500, items=MOST_NAMED)
    flips: list[Json] = [
        {
            "task": bounded(one.task, text=300),
            "a": one.mean_a,
            "b": one.mean_b,
            "why_a": bounded(list(one.why_a)[:MOST_LINKS], text=300),
            "why_b": bounded(list(one.why_b)[:MOST_LINKS], text=300),
            "attempts_a": _places(one.rows_a, report.a, index)[:MOST_LINKS],
            "attempts_b": _places(one.rows_b, report.b, index)[:MOST_LINKS],
        }
        for one in report.flips
    ]
    room = Room(FLIP_BYTES)
    found["flips"] = list(takewhile(room.takes, flips))
    found["flipped"] = report.comparison.differing
    for side in ("a", "b"):
        named = found[side]
        if isinstance(named, dict):
            named.pop("origin")
    return found


def _places(rows: Sequence[Row], side: Side, index: dict[tuple[str, str], int]) -> list[Json]:
    return [index[key] for row in rows if (key := (str(side.folder), row.attempt_id)) in index]
