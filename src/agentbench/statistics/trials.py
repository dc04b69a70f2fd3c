"""One attempt as statistics sees it, and the two endpoints it can be counted under."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import StrEnum
from typing import NamedTuple, TypeVar

from agentbench.core.reasons import InvalidCause, RunStatus

Answer = TypeVar("Answer")


class Rate(StrEnum):
    """Which success is counted. Both are always named, because their denominators differ."""

    CONTRACT = "contract"
    """All four gates passed; a run made invalid by the agent's own unsafe act counts as not passed."""
    ACCEPTANCE = "acceptance"
    """Every mandatory check passed, over scorable runs (P3.1)."""


class Trial(NamedTuple):
    """One finished attempt."""

    task: str
    repeat: int
    status: RunStatus
    passed: bool
    invalid_cause: InvalidCause | None = None
    cost: float | None = None

    @property
    def scorable(self) -> bool:
        return self.status is not RunStatus.INVALID

    def value(self, rate: Rate) -> int | None:
        """1 or 0, or None when the attempt stands outside this rate. An acceptance error is never a success."""
        if rate is Rate.ACCEPTANCE:
            return int(self.status is RunStatus.SUCCESS) if self.scorable else None
        if self.scorable:
            return int(self.passed)
        return 0 if self.invalid_cause is InvalidCause.SAFETY else None


def answered(trials: Sequence[Trial], question: Callable[[Trial], Answer]) -> list[Answer]:
    """The answer for each trial to a question about its status, verdict and cause alone.

    There are few kinds of trials, and each is asked once: a hundred thousand calls would take as long as reading a run.
    """
    keys = [(one.status, one.passed, one.invalid_cause) for one in trials]
    answers = {key: question(one) for key, one in dict(zip(keys, trials, strict=True)).items()}
    return [answers[key] for key in keys]
