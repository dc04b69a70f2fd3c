"""The rates of one run, each with its own denominator (P3.1). What is outside a rate is counted, never dropped silently."""

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
    """`count` of `total`; the interval is None when nothing was counted."""

    count: int
    total: int
    interval: Interval | None

    @property
    def share(self) -> float | None:
        return self.count / self.total if self.total else None


@dataclass(frozen=True, slots=True)
class Rates:
    """Everything P3.1 wants apart."""

    attempts: int
    tasks: int
    statuses: Mapping[RunStatus, int]
    invalid: Mapping[InvalidCause, int]
    acceptance: Proportion
    """Success over scorable runs."""
    contract: Proportion
    """Passed, over scorable runs and those the agent made invalid by an unsafe act."""
    acceptance_error: Proportion
    """Acceptance errors over scorable runs."""
    invalid_fraction: Proportion
    """Invalid runs over all."""

    def of(self, rate: Rate) -> Proportion:
        return self.acceptance if rate is Rate.ACCEPTANCE else self.contract

    @property
    def scorable(self) -> int:
        return self.attempts - self.statuses.get(RunStatus.INVALID, 0)


def rates(trials: Sequence[Trial], confidence: float = CONFIDENCE) -> Rates:
    """All rates of a run."""
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
    """One rate over the trials it counts."""
    return Tally(trials).proportion(lambda trial: trial.value(rate), confidence)


class Tally:
    """Trials sorted into the few kinds there are (status, passed, cause), counted per task.

    A question is asked once of each kind instead of once of each trial, so a hundred thousand trials cost one pass.
    """

    def __init__(self, trials: Sequence[Trial]) -> None:
        tasks: dict[str, int] = {}
        kinds: dict[tuple[RunStatus, bool, InvalidCause | None], int] = {}
        self._examples: list[Trial] = []
        places = np.empty((2, len(trials)), dtype=np.int64)
        for index, trial in enumerate(trials):
            key = (trial.status, trial.passed, trial.invalid_cause)
            kind = kinds.get(key)
            if kind is None:
                kind = kinds[key] = len(kinds)
                self._examples.append(trial)
            places[0, index] = tasks.setdefault(trial.task, len(tasks))
            places[1, index] = kind
        self.tasks = len(tasks)
        width = max(1, len(kinds))
        self._counts = np.bincount(places[0] * width + places[1], minlength=self.tasks * width).reshape(-1, width)

    def count(self, name: Callable[[Trial], K | None]) -> dict[K, int]:
        """How many trials have each name; None is not counted."""
        found: dict[K, int] = {}
        for kind, example in enumerate(self._examples):
            key = name(example)
            if key is not None:
                found[key] = found.get(key, 0) + int(self._counts[:, kind].sum())
        return found

    def proportion(self, value: Callable[[Trial], int | None], confidence: float) -> Proportion:
        """The share of 1 among trials with a value, tasks being the clusters."""
        values = [value(example) for example in self._examples]
        inside = [kind for kind, one in enumerate(values) if one is not None]
        good = [kind for kind in inside if values[kind]]
        totals, passed = (self._counts[:, picked].sum(axis=1) for picked in (inside, good))
        clusters = list(zip(passed.tolist(), totals.tolist(), strict=True))
        return Proportion(int(passed.sum()), int(totals.sum()), clustered_wilson(clusters, confidence))
