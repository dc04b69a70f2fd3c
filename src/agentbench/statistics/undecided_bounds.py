"""Bounds of the contract rate: if all undecided attempts had failed, and if all had passed."""

from __future__ import annotations

from collections.abc import Sequence

from agentbench.core.dataclass import dataclass
from agentbench.core.reasons import InvalidCause, RunStatus
from agentbench.statistics.trials import Trial


@dataclass(frozen=True, slots=True)
class Bounds:
    """Counts over all attempts."""

    passed: int
    undecided: int
    attempts: int

    @property
    def worst(self) -> float | None:
        return self.passed / self.attempts if self.attempts else None

    @property
    def best(self) -> float | None:
        return (self.passed + self.undecided) / self.attempts if self.attempts else None

    @property
    def undecided_share(self) -> float | None:
        return self.undecided / self.attempts if self.attempts else None


def undecided(trial: Trial) -> bool:
    """Whether correctness is unknown: an acceptance error, or invalid but not by a safety stop of the agent."""
    if trial.status is RunStatus.INVALID:
        return trial.invalid_cause is not InvalidCause.SAFETY
    return trial.status is RunStatus.ACCEPTANCE_ERROR


def bounds(trials: Sequence[Trial]) -> Bounds:
    """Compute the bounds of the contract rate."""
    return Bounds(sum(trial.passed for trial in trials), sum(map(undecided, trials)), len(trials))


def difference_bounds(a: Sequence[Trial], b: Sequence[Trial]) -> tuple[float, float] | None:
    """Return the smallest and largest possible B - A, the mean of per-task differences; None without common tasks."""
    left, right = _by_task(a), _by_task(b)
    common = [task for task in left if task in right]
    if not common:
        return None
    pairs = [(bounds(left[task]), bounds(right[task])) for task in common]
    low = sum((y.worst or 0) - (x.best or 0) for x, y in pairs) / len(pairs)
    high = sum((y.best or 0) - (x.worst or 0) for x, y in pairs) / len(pairs)
    return low, high


def _by_task(trials: Sequence[Trial]) -> dict[str, list[Trial]]:
    tasks: dict[str, list[Trial]] = {}
    for trial in trials:
        tasks.setdefault(trial.task, []).append(trial)
    return tasks
