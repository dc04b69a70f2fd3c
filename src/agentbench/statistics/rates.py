"""Rates of one run, each with its own denominator. Attempts outside a rate are counted separately, never dropped."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np

from agentbench.core.reasons import InvalidCause, RunStatus
from agentbench.statistics.intervals import CONFIDENCE, Interval, clustered_wilson
from agentbench.statistics.trials import Rate, Trial

K = TypeVar("K", bound=Hashable)


@dataclass(frozen=True, slots=True)
class Proportion:
    """`count` of `total`; the interval is None when `total` is 0."""

    count: int
    total: int
    interval: Interval | None

    @property
    def share(self) -> float | None:
        return self.count / self.total if self.total else None


@dataclass(frozen=True, slots=True)
class Rates:
    """All rates and counts of one run."""

    attempts: int
    tasks: int
    statuses: Mapping[RunStatus, int]
    invalid: Mapping[InvalidCause, int]
    acceptance: Proportion
    """Successes over scorable attempts."""
    contract: Proportion
    """Passes over scorable attempts and attempts made invalid by an unsafe action of the agent."""
    acceptance_error: Proportion
    """Acceptance errors over scorable attempts."""
    invalid_fraction: Proportion
    """Invalid attempts over all attempts."""

    def of(self, rate: Rate) -> Proportion:
        return self.acceptance if rate is Rate.ACCEPTANCE else self.contract

    @property
    def scorable(self) -> int:
        return self.attempts - self.statuses.get(RunStatus.INVALID, 0)


def rates(trials: Sequence[Trial], confidence: float = CONFIDENCE) -> Rates:
    """Compute all rates of a run."""
    tally = Tally(trials)
    return Rates(
        attempts=len(trials),
        tasks=tally.tasks,
        statuses=tally.count(lambda trial: trial.status),
        invalid=tally.count(lambda trial: None if trial.scorable else trial.invalid_cause or InvalidCause.HARNESS),
        acceptance=tally.proportion(lambda trial: trial.value(Rate.ACCEPTANCE), confidence),
        contract=tally.proportion(lambda trial: trial.value(Rate.CONTRACT), confidence),
        acceptance_error=tally.proportion(
            lambda trial: int(trial.status is RunStatus.ACCEPTANCE_ERROR) if trial.scorable else None, confidence
        ),
        invalid_fraction=tally.proportion(lambda trial: int(not trial.scorable), confidence),
    )


def endpoint(trials: Sequence[Trial], rate: Rate, confidence: float = CONFIDENCE) -> Proportion:
    """Compute one rate over the trials it counts."""
    return Tally(trials).proportion(lambda trial: trial.value(rate), confidence)


class Tally:
    """Trials grouped by (status, passed, cause) and counted per task.

    There are few such groups, so each query evaluates one example per group instead of every trial.
    """

    def __init__(self, trials: Sequence[Trial]) -> None:
        tasks: dict[str, int] = {}
        groups: dict[tuple[RunStatus, bool, InvalidCause | None], int] = {}
        self._examples: list[Trial] = []
        cells = np.empty((2, len(trials)), dtype=np.int64)
        for index, trial in enumerate(trials):
            key = (trial.status, trial.passed, trial.invalid_cause)
            group = groups.get(key)
            if group is None:
                group = groups[key] = len(groups)
                self._examples.append(trial)
            cells[0, index] = tasks.setdefault(trial.task, len(tasks))
            cells[1, index] = group
        self.tasks = len(tasks)
        width = max(1, len(groups))
        self._counts = np.bincount(cells[0] * width + cells[1], minlength=self.tasks * width).reshape(-1, width)

    def count(self, name: Callable[[Trial], K | None]) -> dict[K, int]:
        """Count trials by name; None is not counted."""
        counts: dict[K, int] = {}
        for group, example in enumerate(self._examples):
            key = name(example)
            if key is not None:
                counts[key] = counts.get(key, 0) + int(self._counts[:, group].sum())
        return counts

    def proportion(self, value: Callable[[Trial], int | None], confidence: float) -> Proportion:
        """Return the share of trials with value 1 among those with a value, clustered by task."""
        values = [value(example) for example in self._examples]
        counted = [group for group, number in enumerate(values) if number is not None]
        successful = [group for group in counted if values[group]]
        totals, passed = (self._counts[:, groups].sum(axis=1) for groups in (counted, successful))
        clusters = list(zip(passed.tolist(), totals.tolist(), strict=True))
        return Proportion(int(passed.sum()), int(totals.sum()), clustered_wilson(clusters, confidence))
