"""Rates of one run, each with its own denominator. Attempts outside a rate are counted separately, never dropped."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import TypeVar

from agentbench.core.dataclass import dataclass
from agentbench.core.reasons import InvalidCause, RunStatus
from agentbench.statistics.intervals import CONFIDENCE, Interval, clustered_wilson, task_mean_wilson
from agentbench.statistics.trials import Rate, Trial

K = TypeVar("K", bound=Hashable)

_Group = tuple[RunStatus, bool, InvalidCause | None, bool]


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
class TaskRate:
    """The mean of per-task rates: each task has the same weight, however many attempts it has."""

    share: float | None
    interval: Interval | None
    passed: int
    attempts: int

    @property
    def differs_from_attempts(self) -> bool:
        """Return whether the share is another number than passed attempts over attempts."""
        return self.share is not None and not math.isclose(self.share, self.passed / self.attempts)


@dataclass(frozen=True, slots=True)
class Rates:
    """All rates and counts of one run."""

    attempts: int
    tasks: int
    statuses: Mapping[RunStatus, int]
    invalid: Mapping[InvalidCause, int]
    acceptance: Proportion
    """Successes over scorable attempts whose acceptance is known: all but those imported from other tools."""
    contract: Proportion
    """Passes over scorable attempts and attempts made invalid by an unsafe action of the agent."""
    acceptance_error: Proportion
    """Acceptance errors over the same attempts."""
    invalid_fraction: Proportion
    """Invalid attempts over all attempts."""

    def of(self, rate: Rate) -> Proportion:
        return self.acceptance if rate is Rate.ACCEPTANCE else self.contract

    @property
    def acceptance_unknown(self) -> bool:
        """Whether attempts are scorable, but their acceptance is known for none."""
        return bool(self.scorable) and not self.acceptance.total

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
            lambda trial: (
                int(trial.status is RunStatus.ACCEPTANCE_ERROR) if trial.scorable and trial.acceptance_known else None
            ),
            confidence,
        ),
        invalid_fraction=tally.proportion(lambda trial: int(not trial.scorable), confidence),
    )


def endpoint(trials: Sequence[Trial], rate: Rate, confidence: float = CONFIDENCE) -> Proportion:
    """Compute one rate over the trials it counts."""
    return Tally(trials).proportion(lambda trial: trial.value(rate), confidence)


def task_rate(trials: Sequence[Trial], rate: Rate, confidence: float = CONFIDENCE) -> TaskRate:
    """Compute the mean over tasks of each task's rate, over the trials that it counts."""
    tasks: dict[str, list[int]] = {}
    for trial in trials:
        value = trial.value(rate)
        if value is not None:
            tasks.setdefault(trial.task, []).append(value)
    clusters = [(sum(values), len(values)) for values in tasks.values()]
    passed, attempts = sum(passed for passed, _ in clusters), sum(total for _, total in clusters)
    if not clusters:
        return TaskRate(None, None, 0, 0)
    # With equal numbers of attempts exactly the share of attempts, without rounding twice.
    equal = len({total for _, total in clusters}) == 1
    share = passed / attempts if equal else math.fsum(passed / total for passed, total in clusters) / len(clusters)
    return TaskRate(share, task_mean_wilson(clusters, confidence), passed, attempts)


class Tally:
    """Trials grouped by (status, passed, cause, whether acceptance is known) and counted per task.

    There are few such groups, so each query evaluates one example per group instead of every trial.
    """

    def __init__(self, trials: Sequence[Trial]) -> None:
        self._examples: dict[_Group, Trial] = {}
        self._counts: dict[_Group, Counter[str]] = {}
        """By group: trials by task."""
        for trial in trials:
            key = (trial.status, trial.passed, trial.invalid_cause, trial.acceptance_known)
            counts = self._counts.get(key)
            if counts is None:
                self._examples[key] = trial
                counts = self._counts[key] = Counter()
            counts[trial.task] += 1
        self.tasks = len(set().union(*self._counts.values()))

    def count(self, name: Callable[[Trial], K | None]) -> dict[K, int]:
        """Count trials by name; None is not counted."""
        counts: dict[K, int] = {}
        for group, example in self._examples.items():
            key = name(example)
            if key is not None:
                counts[key] = counts.get(key, 0) + self._counts[group].total()
        return counts

    def proportion(self, value: Callable[[Trial], int | None], confidence: float) -> Proportion:
        """Return the share of trials with value 1 among those with a value, clustered by task."""
        totals: Counter[str] = Counter()
        passed: Counter[str] = Counter()
        for group, example in self._examples.items():
            number = value(example)
            if number is not None:
                totals.update(self._counts[group])
                passed.update(self._counts[group] if number else ())
        clusters = [(passed[task], total) for task, total in totals.items()]
        return Proportion(passed.total(), totals.total(), clustered_wilson(clusters, confidence))
