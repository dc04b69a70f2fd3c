"""One attempt reduced to what statistics needs, and the two rates it can count in."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import StrEnum
from typing import NamedTuple, TypeVar

from agentbench.core.reasons import InvalidCause, RunStatus

T = TypeVar("T")


class Rate(StrEnum):
    """The definition of success. Reports always name the rate, because the denominators differ."""

    CONTRACT = "contract"
    """All four gates passed. An attempt made invalid by the agent's own unsafe action counts as not passed."""
    ACCEPTANCE = "acceptance"
    """Every mandatory check passed, over scorable attempts."""


class Trial(NamedTuple):
    """One finished attempt."""

    task: str
    repeat: int
    status: RunStatus
    passed: bool
    invalid_cause: InvalidCause | None = None
    cost: float | None = None
    safe: bool | None = None
    """Whether the agent broke no rule and had no safety stop; None if unknown."""
    acceptance_known: bool = True
    """False for results of other tools that state one decision, not whether it is about the mandatory checks."""

    @property
    def scorable(self) -> bool:
        return self.status is not RunStatus.INVALID

    def value(self, rate: Rate) -> int | None:
        """Return 1 or 0, or None when the attempt is outside this rate. An acceptance error counts as 0."""
        if rate is Rate.ACCEPTANCE:
            return int(self.status is RunStatus.SUCCESS) if self.scorable and self.acceptance_known else None
        return contract_value(self.status, self.invalid_cause, passed=self.passed)


def contract_value(status: RunStatus, cause: InvalidCause | None, *, passed: bool) -> int | None:
    """Return 1 or 0, or None for an attempt outside the contract rate."""
    if status is RunStatus.INVALID:
        return 0 if cause is InvalidCause.SAFETY else None
    return int(passed)


def map_trials(trials: Sequence[Trial], function: Callable[[Trial], T]) -> list[T]:
    """Apply a function that depends only on status, verdict, cause and whether acceptance is known.

    It is called once per combination of these, not once per trial: 100,000 calls would take as long as reading the run.
    """
    keys = [(trial.status, trial.passed, trial.invalid_cause, trial.acceptance_known) for trial in trials]
    values = {key: function(trial) for key, trial in dict(zip(keys, trials, strict=True)).items()}
    return [values[key] for key in keys]
