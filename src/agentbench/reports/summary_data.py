"""The summary of a run as JSON, and its attempts as CSV."""

from __future__ import annotations

from agentbench.core.canonical import Json
from agentbench.core.reasons import Gate, InvalidCause, Outcome, RunStatus
from agentbench.reports.adjudications import Agreement, Review, to_review
from agentbench.reports.csv_results import DEVIATIONS, joined_deviations
from agentbench.reports.escape import Cell, csv_text
from agentbench.reports.json_parts import interval_json, proportion_json, seals_json
from agentbench.reports.number_format import finite, total
from agentbench.reports.record_rows import Row
from agentbench.reports.spending import COST_COLUMNS, cost_cells, distribution_json, spending_json
from agentbench.reports.summary import COUNTING, Stratum, Summary, TaskLine, Times, decision, decoy_coverage
from agentbench.statistics.error_rates import CategoryErrors
from agentbench.statistics.survival import Curve
from agentbench.statistics.trials import Rate


def as_json(summary: Summary) -> dict[str, Json]:
    run, rates = summary.run, summary.rates
    return {
        "decision": decision(summary),
        "run_dir": str(run.path),
        "run_id": run.run_id,
        "suite": run.suite,
        "variants": sorted({row.variant for row in run.rows}),
        "attempts": rates.attempts,
        "superseded": run.superseded,
        "tasks": rates.tasks,
        "scorable": rates.scorable,
        "provisional": summary.provisional,
        "deviations": list(summary.deviations),
        **seals_json(run),
        "statuses": {status: rates.statuses.get(status, 0) for status in RunStatus},
        "rates": {
            Rate.CONTRACT: proportion_json(rates.contract),
            Rate.ACCEPTANCE: proportion_json(rates.acceptance),
            "acceptance_error": proportion_json(rates.acceptance_error),
            "invalid": proportion_json(rates.invalid_fraction),
        },
        "acceptance_unknown": rates.acceptance_unknown,
        "contract_by_repository": interval_json(summary.by_repository),
        "counting": COUNTING,
        "undecided": {
            "attempts": summary.bounds.undecided,
            "share": summary.bounds.undecided_share,
            "worst": summary.bounds.worst,
            "best": summary.bounds.best,
        },
        "pass_k": [
            {"k": pass_k.k, "pass_at_k": pass_k.any_of, "pass_hat_k": pass_k.all_of, "tasks": pass_k.tasks}
            for pass_k in summary.pass_k
        ],
        "invalid_by_cause": {cause: rates.invalid.get(cause, 0) for cause in InvalidCause},
        "failure_reasons": dict(sorted(summary.reasons.items())),
        "gate_vectors": [
            {**{str(gate): outcome for gate, outcome in zip(Gate, outcomes, strict=True)}, "attempts": count}
            for outcomes, count in sorted(summary.gate_vectors.items(), key=lambda item: -item[1])
        ],
        "assurance": dict(sorted(summary.assurance.items())),
        "decoy_coverage": [
            {"task": task, "share": share} for task, share in sorted(decoy_coverage(summary.run.rows).items())
        ],
        "commands": dict(sorted(summary.commands.items())),
        "mean_score": finite(summary.mean_score),
        "scored": summary.scored,
        "hardest": [{"task": line.task, "passed": line.passed, "counted": line.counted} for line in summary.hardest],
        "flaky": [line.task for line in summary.flaky],
        "by_task": list(map(task_json, summary.tasks)),
        "strata": list(map(stratum_json, summary.strata)),
        "cost": list(map(spending_json, summary.spending)),
        "distributions": list(map(distribution_json, summary.distributions)),
        "overruns": [row.attempt_id for row in summary.run.rows if row.overrun],
        "times": list(map(times_json, summary.times)),
        "time_to_success": curve_json(summary.time_to_success),
        "cost_to_success": curve_json(summary.cost_to_success),
        **adjudication_json(summary),
        "needs_review": [row.attempt_id for row in to_review(summary.run.rows, summary.adjudications)],
    }


def adjudication_json(summary: Summary) -> dict[str, Json]:
    """Return the reviews of attempts and the error rates that follow from them."""
    return {
        "adjudications": len(summary.adjudications),
        "reviewer_minutes": finite(total([adjudication.minutes for adjudication in summary.adjudications])),
        "adjudicated_attempts": {
            agreement: sum(review.agreement is agreement for review in summary.reviews) for agreement in Agreement
        },
        "unpriced_reviewer_minutes": finite(summary.review_costs.unpriced_minutes),
        "truth": list(map(error_rates_json, summary.error_rates)),
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


def stratum_json(stratum: Stratum) -> dict[str, Json]:
    return {
        "dimension": stratum.dimension,
        "value": stratum.value,
        "tasks": stratum.tasks,
        "contract": proportion_json(stratum.contract),
        "cost": {unit: finite(value) for unit, value in stratum.cost.items()},
        "seconds": finite(stratum.seconds),
        "tokens": stratum.tokens,
    }


def times_json(times: Times) -> dict[str, Json]:
    return {
        "outcome": times.outcome,
        "attempts": times.attempts,
        "median_sec": times.median,
        "p90_sec": times.p90,
        "longest_sec": times.longest,
        "total_sec": finite(times.total),
    }


def error_rates_json(category: CategoryErrors) -> dict[str, Json]:
    return {
        "category": category.category,
        "false_positive": proportion_json(category.false_positive),
        "correct_rejected": category.correct_rejected,
        "false_negative": proportion_json(category.false_negative),
        "defects_passed": category.defects_passed,
    }


def curve_json(curve: Curve, max_steps: int = 400) -> dict[str, Json]:
    """Thin the curve to about `max_steps` steps, always keeping the last."""
    count = len(curve.steps)
    stride = max(1, -(-count // max_steps))
    steps = [step for index, step in enumerate(curve.steps) if index % stride == 0 or index == count - 1]
    return {
        "attempts": curve.attempts,
        "events": curve.events,
        "censored": curve.censored,
        "median": curve.median,
        "steps": [[step.amount, step.survival, step.low, step.high, step.at_risk] for step in steps],
    }


CSV_HEAD = (
    "task", "method", "repeat", "outcome", "cost", "failure_reason", "run_status", "invalid_cause", "attribution", "G1", "G2", "G3",
    "G4", "score", "f2p_passed", "f2p_total", "p2p_kept", "p2p_total", "duration_sec", "tool_calls", "contract_id", "attempt_id",
    "task_dir", "assurance", "needs_review", "termination", "prompt_tokens", "completion_tokens", "wall_sec", "cost_unit",
    "workspace_verdict", "judge_verdict", "run_badge", "commands", "safety", DEVIATIONS, "adjudicated", "flagged_categories",
    "actual_categories", "altered", "imported", "decoy_coverage",
    *COST_COLUMNS,
)  # fmt: skip


def as_csv(summary: Summary) -> str:
    """One row per attempt. `ab report paired` reads the first five columns and G4 back."""
    deviations = joined_deviations(summary.deviations)
    adjudicated = {review.attempt_id: review for review in summary.reviews}
    origins = summary.provenance.origins
    return csv_text(
        CSV_HEAD,
        (
            {
                **_csv_row(row, deviations, adjudicated.get(row.attempt_id)),
                **summary.run.seal_cells(row.attempt_id),
                **cost_cells(row, summary.review_costs, origins.get(row.task)),
            }
            for row in summary.run.rows
        ),
    )


def _csv_row(row: Row, deviations: str, review: Review | None) -> dict[str, Cell]:
    f2p_passed, f2p_total, p2p_kept, p2p_total = row.progress
    return {
        "task": row.task,
        "method": row.variant,
        "repeat": row.repeat,
        "outcome": _outcome_word(row),
        "cost": row.cost.known_total,
        "failure_reason": row.reason,
        "run_status": row.status,
        "invalid_cause": row.cause,
        "attribution": row.attribution,
        **{str(gate): outcome for gate, outcome in zip(Gate, row.gates, strict=True)},
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
        "decoy_coverage": row.decoy_coverage,
        "needs_review": row.needs_review,
        "termination": row.ending,
        "prompt_tokens": row.usage.prompt_tokens,
        "completion_tokens": row.usage.completion_tokens,
        "wall_sec": row.usage.wall_sec,
        "cost_unit": row.cost.unit,
        "workspace_verdict": row.workspace_verdict,
        "judge_verdict": row.judge,
        "run_badge": row.badge,
        "commands": row.commands,
        "safety": row.safety,
        DEVIATIONS: deviations,
        "adjudicated": None if review is None else review.agreement,
        "flagged_categories": None if review is None else " ".join(review.flagged),
        "actual_categories": None if review is None else " ".join(review.actual),
    }


def _outcome_word(row: Row) -> str:
    """Return `pass`, `fail`, `error` or `invalid:CAUSE`, as CSV result files name outcomes."""
    if row.status is RunStatus.INVALID:
        return f"invalid:{row.cause or InvalidCause.HARNESS}"
    if row.status is RunStatus.ACCEPTANCE_ERROR:
        return Outcome.ERROR
    return Outcome.PASS if row.passed else Outcome.FAIL
