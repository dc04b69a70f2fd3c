"""Findings that CI systems mark: attempts that did not pass, how severe each is, and doubts about the records."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from agentbench.core.reasons import Attribution
from agentbench.record.schema import AttemptRecord
from agentbench.reports.sources import Run


def doubts(run: Run) -> str:
    """Return what was altered in the run, or that it has no seals; empty text if its records can be relied on."""
    return run.seal_marks.mark("").strip()


def not_passed(finals: Sequence[AttemptRecord]) -> list[AttemptRecord]:
    """Return the attempts that did not pass, invalid ones last."""
    return sorted(
        (record for record in finals if not record.result.passed),
        key=lambda record: (record.invalid_cause is not None, record.task_id, record.repeat),
    )


def severity(record: AttemptRecord) -> Literal["error", "warning"]:
    """Return how an attempt that did not pass is marked: only what the agent did is an error."""
    return "error" if record.attribution is Attribution.AGENT else "warning"
