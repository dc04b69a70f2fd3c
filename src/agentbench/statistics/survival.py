"""Time or cost to success under caps: the Kaplan–Meier estimator with Greenwood's variance.

An attempt that passed is an event at the amount it used. An attempt stopped by a cap, or undecided, is censored at the
amount it had used: it might have passed later. An attempt that ended on its own without passing stays in the risk set
to the end.
"""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

from agentbench.core.dataclass import dataclass
from agentbench.statistics.distributions import normal_quantile
from agentbench.statistics.intervals import CONFIDENCE


class Step(NamedTuple):
    """The curve just after an amount at which an attempt passed."""

    amount: float
    at_risk: int
    events: int
    survival: float
    """Share of attempts that have not passed yet."""
    low: float
    high: float
    """Log-log confidence interval of `survival`."""


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
    confidence: float = CONFIDENCE,
) -> Curve:
    """Estimate the curve from the amount that each attempt used, whether it passed, and whether it ended without passing.

    At equal amounts, passes count before censored attempts.
    """
    attempts = [
        attempt for attempt in zip(amounts_used, passed, never_passes, strict=True) if math.isfinite(attempt[0])
    ]
    # An attempt is at risk until it passes or is censored; one that never passes stays at risk.
    leaving = sorted(used for used, _, never in attempts if not never)
    counts = Counter(used for used, event, _ in attempts if event)
    z = normal_quantile(confidence)
    survival, greenwood = 1.0, 0.0
    steps = []
    for amount, events in sorted(counts.items()):
        at_risk = len(attempts) - bisect_left(leaving, amount)
        survival *= 1 - events / at_risk
        greenwood += events / (at_risk * (at_risk - events)) if at_risk > events else math.inf
        steps.append(Step(float(amount), at_risk, events, survival, *_log_log(survival, greenwood, z)))
    return Curve(len(attempts), tuple(steps))


def _log_log(survival: float, greenwood: float, z: float) -> tuple[float, float]:
    """Return log-log interval bounds, which stay between 0 and 1; the point itself where none is defined."""
    if not 0 < survival < 1 or math.isinf(greenwood):
        return survival, survival
    half = z * math.sqrt(greenwood) / abs(math.log(survival))
    return survival ** math.exp(half), survival ** math.exp(-half)
