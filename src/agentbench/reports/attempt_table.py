"""One attempt as a flat row, for tables of other libraries."""

from __future__ import annotations

from collections.abc import Mapping

from agentbench.core.canonical import Json
from agentbench.record.schema import AttemptRecord


def retry_of(meta: Mapping[str, Json]) -> str | None:
    """Return the name of the run whose attempts a run repeats, from its `run.json`; None for other runs.

    Such a run holds only attempts that did not pass before: counting it with that run would bias a pass rate.
    """
    link = meta.get("retry_of")
    return str(link.get("name") or link.get("run_id")) if isinstance(link, Mapping) else None


def table_row(run_dir: str, meta: Mapping[str, Json], attempt: AttemptRecord) -> dict[str, Json]:
    """Return an attempt as one flat row, with the columns of `ab query`. `meta` is the content of `run.json`."""
    usage, cost = attempt.usage, attempt.cost
    return {
        "run_dir": run_dir,
        "run_id": attempt.run_id,
        "retry_of": retry_of(meta),
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
        "cost": cost.total if cost.known else None,
        "cost_unit": _text(cost.unit),
        "decoy_coverage": attempt.decoy_coverage,
        "started_at": attempt.timestamps.started_at,
        "task_dir": attempt.artifact_paths.task_dir,
    }


def _text(value: object) -> str | None:
    return None if value is None else str(value)
