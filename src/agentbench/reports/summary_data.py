"""The summary of a run for machines: JSON with every number, CSV with a row per attempt."""

from __future__ import annotations

from agentbench.core.canonical import Json
from agentbench.core.reasons import Gate, InvalidCause, Outcome, RunStatus
from agentbench.reports.escape import Cell, csv_text
from agentbench.reports.figures import finite, total
from agentbench.reports.record_rows import Row
from agentbench.reports.summary import COUNTING, Spending, Stratum, Summary, TaskLine, Times, decision
from agentbench.statistics.error_rates import CategoryTruth
from agentbench.statistics.intervals import Interval
from agentbench.statistics.rates import Proportion
from agentbench.statistics.survival import Curve
from agentbench.statistics.trials import Rate


def as_json(summary: Summary) -> dict[str, Json]:
    run, found = summary.run, summary.rates
    return {
        "decision": decision(summary),
        "run_dir": str(run.path),
        "run_id": run.run_id,
        "suite": run.suite,
        "variants": sorted({row.variant for row in run.rows}),
        "attempts": found.attempts,
        "superseded": run.superseded,
        "tasks": found.tasks,
        "scorable": found.scorable,
        "provisional": summary.provisional,
        "deviations": list(summary.deviations),
        "statuses": {status: found.statuses.get(status, 0) for status in RunStatus},
        "rates": {
            Rate.CONTRACT: proportion_json(found.contract),
            Rate.ACCEPTANCE: proportion_json(found.acceptance),
            "acceptance_error": proportion_json(found.acceptance_error),
            "invalid": proportion_json(found.invalid_fraction),
        },
        "contract_by_repository": interval_json(summary.by_repository),
        "counting": COUNTING,
        "undecided": {
            "attempts": summary.bounds.undecided,
            "share": summary.bounds.undecided_share,
            "worst": summary.bounds.worst,
            "best": summary.bounds.best,
        },
        "pass_k": [
            {"k": one.k, "pass_at_k": one.any_of, "pass_hat_k": one.all_of, "tasks": one.tasks}
            for one in summary.pass_k
        ],
        "invalid_by_cause": {cause: found.invalid.get(cause, 0) for cause in InvalidCause},
        "failure_reasons": dict(sorted(summary.reasons.items())),
        "gate_vectors": [
            {**{str(gate): one for gate, one in zip(Gate, key, strict=True)}, "attempts": count}
            for key, count in sorted(summary.gate_vectors.items(), key=lambda item: -item[1])
        ],
        "assurance": dict(sorted(summary.assurance.items())),
        "mean_score": finite(summary.mean_score),
        "scored": summary.scored,
        **_detail(summary),
    }


def _detail(summary: Summary) -> dict[str, Json]:
    return {
        "hardest": [{"task": line.task, "passed": line.passed, "counted": line.counted} for line in summary.hardest],
        "flaky": [line.task for line in summary.flaky],
        "by_task": [task_json(line) for line in summary.tasks],
        "strata": [stratum_json(one) for one in summary.strata],
        "cost": [spending_json(one) for one in summary.spending],
        "times": [times_json(one) for one in summary.times],
        "time_to_success": curve_json(summary.time_to_success),
        "cost_to_success": curve_json(summary.cost_to_success),
        "adjudications": len(summary.adjudications),
        "reviewer_minutes": finite(total([one.minutes for one in summary.adjudications])),
        "truth": [truth_json(one) for one in summary.truth],
        "needs_review": [row.attempt_id for row in summary.run.rows if row.needs_review],
    }


def task_json(line: TaskLine) -> dict[str, Json]:
    return {
        "task": line.task,
        "passed": line.passed,
        "counted": line.counted,
        "attempts": line.attempts,
        "tokens": line.tokens,
        "cost": finite(line.cost),
    }


def stratum_json(one: Stratum) -> dict[str, Json]:
    return {
        "dimension": one.dimension,
        "value": one.value,
        "tasks": one.tasks,
        "contract": proportion_json(one.contract),
        "cost": {unit: finite(value) for unit, value in one.cost.items()},
        "seconds": finite(one.seconds),
        "tokens": one.tokens,
    }


def spending_json(one: Spending) -> dict[str, Json]:
    return {
        "unit": one.unit,
        "lm": finite(one.lm),
        "exec": finite(one.exec),
        "human": finite(one.human),
        "overhead": finite(one.overhead),
        "judge": finite(one.judge),
        "total": finite(one.total),
        "per_pass": finite(one.per_pass),
    }


def times_json(one: Times) -> dict[str, Json]:
    return {
        "outcome": one.outcome,
        "attempts": one.attempts,
        "median_sec": one.median,
        "p90_sec": one.ninth,
        "longest_sec": one.longest,
        "total_sec": finite(one.total),
    }


def truth_json(one: CategoryTruth) -> dict[str, Json]:
    return {
        "category": one.category,
        "false_positive": proportion_json(one.false_positive),
        "false_negative": proportion_json(one.false_negative),
    }


def curve_json(curve: Curve, most: int = 400) -> dict[str, Json]:
    """A curve with at most `most` of its steps, the last one always among them."""
    count = curve.amounts.size
    every = max(1, -(-count // most))
    picked = [curve.step(index) for index in range(count) if index % every == 0 or index == count - 1]
    return {
        "attempts": curve.attempts,
        "events": curve.events,
        "censored": curve.censored,
        "median": curve.median,
        "steps": [[one.amount, one.survival, one.low, one.high, one.at_risk] for one in picked],
    }


def proportion_json(one: Proportion) -> dict[str, Json]:
    return {"count": one.count, "total": one.total, "share": one.share, "interval": interval_json(one.interval)}


def interval_json(one: Interval | None) -> dict[str, Json] | None:
    if one is None:
        return None
    return {"low": one.low, "high": one.high, "confidence": one.confidence, "method": one.method}


CSV_HEAD = (
    "task", "method", "repeat", "outcome", "cost", "failure_reason", "run_status", "invalid_cause", "attribution", "G1", "G2", "G3",
    "G4", "score", "f2p_passed", "f2p_total", "p2p_kept", "p2p_total", "duration_sec", "tool_calls", "contract_id", "attempt_id",
    "task_dir", "assurance", "needs_review", "termination", "prompt_tokens", "completion_tokens", "wall_sec", "cost_unit",
    "workspace_verdict", "judge_verdict", "run_badge",
)  # fmt: skip


def as_csv(summary: Summary) -> str:
    """One row per attempt. The first five columns are the form in which results made elsewhere are read."""
    return csv_text(CSV_HEAD, map(_csv_row, summary.run.rows))


def _csv_row(row: Row) -> dict[str, Cell]:
    f2p_passed, f2p_total, p2p_kept, p2p_total = row.progress
    return {
        "task": row.task,
        "method": row.variant,
        "repeat": row.repeat,
        "outcome": outcome_word(row),
        "cost": row.cost.total,
        "failure_reason": row.reason,
        "run_status": row.status,
        "invalid_cause": row.cause,
        "attribution": row.attribution,
        **{str(gate): one for gate, one in zip(Gate, row.gates, strict=True)},
        "score": row.score,
        "f2p_passed": f2p_passed,
        "f2p_total": f2p_total,
        "p2p_kept": p2p_kept,
        "p2p_total": p2p_total,
        "duration_sec": row.duration,
        "tool_calls": row.usage.tool_calls,
        "contract_id": row.contract_id,
        "attempt_id": row.attempt_id,
        "task_dir": row.task_dir,
        "assurance": row.assurance,
        "needs_review": row.needs_review,
        "termination": row.ending,
        "prompt_tokens": row.usage.prompt_tokens,
        "completion_tokens": row.usage.completion_tokens,
        "wall_sec": row.usage.wall_sec,
        "cost_unit": row.cost.unit,
        "workspace_verdict": row.workspace_verdict,
        "judge_verdict": row.judge,
        "run_badge": row.badge,
    }


def outcome_word(row: Row) -> str:
    """`pass`, `fail`, `error` or `invalid:CAUSE`: the vocabulary of result files."""
    if row.status is RunStatus.INVALID:
        return f"invalid:{row.cause or InvalidCause.HARNESS}"
    if row.status is RunStatus.ACCEPTANCE_ERROR:
        return Outcome.ERROR
    return Outcome.PASS if row.passed else Outcome.FAIL
