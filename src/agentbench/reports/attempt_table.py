"""One attempt as a flat row, for tables of other libraries."""

from __future__ import annotations

from agentbench.core.canonical import Json
from agentbench.record.schema import AttemptRecord


def table_row(run_dir: str, attempt: AttemptRecord) -> dict[str, Json]:
    """Return an attempt as one flat row, with the columns of `ab query`."""
    usage, cost = attempt.usage, attempt.cost
    return {
        "run_dir": run_dir,
        "run_id": attempt.run_id,
        "attempt_id": attempt.attempt_id,
        "suite": attempt.suite,
        "task_id": attempt.task_id,
        "variant": attempt.variant,
        "agent": attempt.agent,
        "model": attempt.model.name,
        "repeat": attempt.repeat,
        "passed": attempt.result.passed,
        "failure_reason": _text(attempt.result.failure_reason),
        "run_status": str(attempt.run_status),
        "invalid_cause": _text(attempt.invalid_cause),
        "termination": str(attempt.termination.code),
        "score": attempt.score,
        "judge_verdict": None if attempt.judge is None else _text(attempt.judge.verdict),
        "workspace_verdict": _text(attempt.workspace_verdict),
        "needs_review": attempt.needs_review,
        "duration_sec": attempt.duration_sec,
        "wall_sec": usage.wall_sec,
        "tool_calls": usage.tool_calls,
        "prompt_tokens": usage.prompt_tokens,
        "completion_tokens": usage.completion_tokens,
        "cost": cost.total,
        "cost_unit": _text(cost.unit),
        "decoy_coverage": attempt.decoy_coverage,
        "started_at": attempt.timestamps.started_at,
        "task_dir": attempt.artifact_paths.task_dir,
    }


def _text(value: object) -> str | None:
    return None if value is None else str(value)
