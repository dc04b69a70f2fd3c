"""Repeat attempts of an earlier run without changing what its rates count.

Attempts outside every rate are repeated in the same run: a new record supersedes the old one, which stays with its evidence.
An attempt that counts in a rate is never superseded, because repeating only what did not pass would raise the rate. It is
repeated in a new run that names the old one.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum

from agentbench.core.canonical import Json
from agentbench.core.errors import InputError
from agentbench.core.reasons import InvalidCause, RunStatus, TerminationCode
from agentbench.core.text import shell_quoted
from agentbench.execution.plan import PlanRow
from agentbench.record.run_directory import RunDirectory
from agentbench.record.schema import AttemptRecord


class RetryKind(StrEnum):
    """The attempts to repeat."""

    INVALID = "invalid"
    """Outside every rate: a harness error, an invalid task, or a decision of the operator. Repeated in the same run."""
    ERRORS = "errors"
    """Ended in a harness error, also one during grading, which counts as not passed. Repeated in a new run."""
    FAILED = "failed"
    """Count in the contract rate and did not pass. Repeated in a new run."""

    @property
    def in_place(self) -> bool:
        return self is RetryKind.INVALID

    def wants(self, record: AttemptRecord) -> bool:
        """Return whether this kind of retry repeats the attempt."""
        if self is RetryKind.INVALID:
            return not counts(record)
        if self is RetryKind.ERRORS:
            return record.run_status is RunStatus.ACCEPTANCE_ERROR or record.invalid_cause is InvalidCause.HARNESS
        return counts(record) and not record.result.passed


def counts(record: AttemptRecord) -> bool:
    """Return whether an attempt counts in the contract rate. The agent's own unsafe act does, as not passed."""
    return record.run_status is not RunStatus.INVALID or record.invalid_cause is InvalidCause.SAFETY


def require_attempts(run: RunDirectory, kind: RetryKind) -> int:
    """Return how many attempts this kind of retry repeats.

    Raises:
        InputError: none; the message says which other kinds have some. Or the run's budget is spent.
    """
    finals = list(run.finals())
    if any(record.termination.code is TerminationCode.TOTAL_BUDGET for record in finals):
        remedy = f"continue it with `ab run --resume {shell_quoted(run.path)}` and a higher --total-usd or --task-usd"
        raise InputError(f"the total budget of {run.path} is spent", remedy=remedy)
    number = sum(map(kind.wants, finals))
    if number == 0:
        others = {other: sum(map(other.wants, finals)) for other in RetryKind if other is not kind}
        alternatives = ", ".join(f"--{other} would repeat {count}" for other, count in others.items() if count)
        nothing = (
            "every attempt passed" if finals else "it has no finished attempts; continue it with `ab run --resume`"
        )
        raise InputError(f"{run.path} has no attempt that --{kind} repeats", remedy=alternatives or nothing)
    return number


def retried_rows(run: RunDirectory, rows: Sequence[PlanRow], kind: RetryKind) -> list[PlanRow]:
    """Select the rows of a run whose attempts are repeated."""
    wanted = {record.key for record in run.finals() if kind.wants(record)}
    return [row for row in rows if row.key in wanted]


def link_to(run: RunDirectory, kind: RetryKind) -> dict[str, Json]:
    """Return what `run.json` of the new run says about the run whose attempts it repeats."""
    return {"retry_of": {"run_id": run.run_id, "name": run.path.name, "kind": str(kind)}}
