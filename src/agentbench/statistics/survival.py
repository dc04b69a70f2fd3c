"""Time or cost to success under caps: the Kaplan–Meier estimator with Wilson intervals.

An attempt that passed is an event at the amount it used. An attempt stopped by a cap, or undecided, is censored at the
amount it had used: it might have passed later. An attempt that ended on its own without passing stays in the risk set
to the end.

Intervals are Wilson's with the effective sample size S(1-S)/variance (Rothman 1978), which stay wide where all or no
attempts passed. The variance is Greenwood's with one attempt per task. With repeats it is the infinitesimal jackknife
with tasks as clusters (Williams 1995). Without censoring both intervals are the ones of a rate.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections import Counter
from collections.abc import Hashable, Mapping, Sequence
from typing import NamedTuple

from agentbench.core.dataclass import dataclass
from agentbench.statistics.intervals import CONFIDENCE, effective_size, wilson

_ROUNDING = 1e-9
"""Share of the largest term below which a sum is rounding."""


class Step(NamedTuple):
    """The curve just after an amount at which an attempt passed."""

    amount: float
    at_risk: int
    events: int
    survival: float
    """Share of attempts that have not passed yet."""
    low: float
    high: float
    """Confidence interval of `survival`."""


@dataclass(frozen=True)
class Curve:
    attempts: int
    steps: tuple[Step, ...]
    """By ascending amount."""

    @property
    def events(self) -> int:
        return sum(step.events for step in self.steps)

    @property
    def censored(self) -> int:
        return self.attempts - self.events

    def at(self, amount: float) -> float:
        """Return the share of attempts that have not passed after this amount."""
        index = bisect_right(self.steps, amount, key=lambda step: step.amount)
        return self.steps[index - 1].survival if index else 1.0

    @property
    def median(self) -> float | None:
        """The amount by which half of the attempts have passed, or None if fewer than half did."""
        return next((step.amount for step in self.steps if step.survival <= 0.5), None)


def kaplan_meier(
    amounts_used: Sequence[float],
    passed: Sequence[bool],
    never_passes: Sequence[bool],
    tasks: Sequence[Hashable] | None = None,
    confidence: float = CONFIDENCE,
) -> Curve:
    """Estimate the curve from the amount that each attempt used, whether it passed, and whether it ended without passing.

    At equal amounts, passes count before censored attempts. `tasks` names the task of each attempt; without it, each
    attempt is a task of its own.
    """
    names = range(len(amounts_used)) if tasks is None else tasks
    attempts = [
        attempt for attempt in zip(amounts_used, passed, never_passes, names, strict=True) if math.isfinite(attempt[0])
    ]
    # An attempt is at risk until it passes or is censored; one that never passes stays at risk.
    leaving = sorted(
        ((used, not event, name) for used, event, never, name in attempts if not never), key=lambda each: each[:2]
    )
    counts = Counter(used for used, event, *_ in attempts if event)
    members = Counter(name for *_, name in attempts)
    clusters, tasks_counted, count = _Clusters(members), len(members), len(attempts)
    survival, hazard, left = 1.0, 0.0, 0
    steps = []
    for amount, events in sorted(counts.items()):
        while leaving[left][0] < amount:
            clusters.leave(leaving[left][2], 0.0, hazard)
            left += 1
        at_risk = count - left
        # Peto's effective size, which needs no variance: without censoring the number of attempts.
        independent, squares = at_risk / survival, 0.0
        survival *= 1 - events / at_risk
        if at_risk > events:
            hazard += events / (at_risk * (at_risk - events))
            for _, _, name in leaving[left : left + events]:
                clusters.leave(name, 1 / (at_risk - events), hazard)
            left += events
            independent = (1 - survival) / (survival * hazard)
            squares = clusters.squares(hazard) * survival**2
        size = independent
        if tasks_counted < count:
            clustered = effective_size(survival, squares, tasks_counted, count, independent, confidence)
            size = independent * tasks_counted / count if clustered is None else clustered
        steps.append(Step(float(amount), at_risk, events, survival, *wilson(survival * size, size, confidence)))
    return Curve(count, tuple(steps))


class _Clusters:
    """Influences on the logarithm of the curve, summed per task and kept up to date as attempts leave the risk set.

    An attempt at risk has the influence -H, with H the cumulated hazard so far; one that left keeps its last influence.
    The sums make each step cost the same, however many tasks there are.
    """

    def __init__(self, at_risk: Mapping[Hashable, int]) -> None:
        self._at_risk = Counter(at_risk)
        self._gone = dict.fromkeys(at_risk, 0.0)
        """By task: the influence of attempts that left."""
        self._gone_squares = self._products = 0.0
        self._risk_squares = sum(number * number for number in at_risk.values())

    def leave(self, task: Hashable, event: float, hazard: float) -> None:
        """Move an attempt out of the risk set; `event` is the influence of its pass, 0 if it is censored."""
        gone, number = self._gone[task], self._at_risk[task]
        influence = event - hazard
        self._gone_squares += influence * (2 * gone + influence)
        self._products += influence * (number - 1) - gone
        self._risk_squares -= 2 * number - 1
        self._gone[task], self._at_risk[task] = gone + influence, number - 1

    def squares(self, hazard: float) -> float:
        """Return the sum over tasks of their squared influences; exactly 0 where only rounding is left."""
        terms = (self._gone_squares, -2 * hazard * self._products, hazard * hazard * self._risk_squares)
        total = math.fsum(terms)
        return total if total > _ROUNDING * max(map(abs, terms)) else 0.0
