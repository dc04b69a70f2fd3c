"""The rates of one run, each with its own denominator (P3.1). What is outside a rate is counted, never dropped silently."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from agentbench.core.reasons import InvalidCause, RunStatus
from agentbench.statistics.intervals import CONFIDENCE, Interval, clustered_wilson
from agentbench.statistics.trials import Rate, Trial


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
    scorable = [trial for trial in trials if trial.scorable]
    return Rates(
        attempts=len(trials),
        tasks=len({trial.task for trial in trials}),
        statuses=Counter(trial.status for trial in trials),
        invalid=Counter(trial.invalid_cause or InvalidCause.HARNESS for trial in trials if not trial.scorable),
        acceptance=endpoint(trials, Rate.ACCEPTANCE, confidence),
        contract=endpoint(trials, Rate.CONTRACT, confidence),
        acceptance_error=_proportion(
            [(trial.task, int(trial.status is RunStatus.ACCEPTANCE_ERROR)) for trial in scorable], confidence
        ),
        invalid_fraction=_proportion([(trial.task, int(not trial.scorable)) for trial in trials], confidence),
    )


def endpoint(trials: Sequence[Trial], rate: Rate, confidence: float = CONFIDENCE) -> Proportion:
    """One rate over the trials it counts."""
    return _proportion(
        [(trial.task, value) for trial in trials if (value := trial.value(rate)) is not None], confidence
    )


def _proportion(values: Sequence[tuple[str, int]], confidence: float) -> Proportion:
    totals = Counter(task for task, _ in values)
    good = Counter(task for task, value in values if value)
    clusters = [(good[task], total) for task, total in totals.items()]
    return Proportion(sum(good.values()), len(values), clustered_wilson(clusters, confidence))
