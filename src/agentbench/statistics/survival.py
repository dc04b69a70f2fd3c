"""Time or cost to success under caps: the Kaplan–Meier estimator with Greenwood's variance (A-06).

An attempt that passed is an event at what it used. One that was stopped by a cap, or that nobody could decide, is censored at
what it had used: it might have succeeded later. One that ended by itself without success would not have: it stays in the
risk set to the end.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from agentbench.statistics.distributions import normal_quantile
from agentbench.statistics.intervals import CONFIDENCE


@dataclass(frozen=True, slots=True)
class Span:
    """One attempt: what it used, and whether it succeeded there. `never`: it ended without success by itself."""

    amount: float
    event: bool
    never: bool = False


@dataclass(frozen=True, slots=True)
class Step:
    """The curve after one amount at which somebody succeeded."""

    amount: float
    at_risk: int
    events: int
    survival: float
    """Share not yet successful."""
    low: float
    high: float
    """Log-log interval of it."""


@dataclass(frozen=True, slots=True)
class Curve:
    attempts: int
    events: int
    censored: int
    steps: tuple[Step, ...]

    def at(self, amount: float) -> float:
        """Share not yet successful after this amount."""
        level = 1.0
        for step in self.steps:
            if step.amount > amount:
                break
            level = step.survival
        return level

    @property
    def median(self) -> float | None:
        """The amount by which half have succeeded; None when the curve never gets there."""
        return next((step.amount for step in self.steps if step.survival <= 0.5), None)


def kaplan_meier(spans: Sequence[Span], confidence: float = CONFIDENCE) -> Curve:
    """The curve of `spans`. At the same amount, successes come before censored ones."""
    finite = [one for one in spans if math.isfinite(one.amount)]
    ordered = sorted(finite, key=lambda one: (math.inf if one.never else one.amount, not one.event))
    z = normal_quantile(confidence)
    risk, level, greenwood = len(ordered), 1.0, 0.0
    steps: list[Step] = []
    index = 0
    while index < len(ordered) and not ordered[index].never:
        amount, events, gone = ordered[index].amount, 0, 0
        while index < len(ordered) and not ordered[index].never and ordered[index].amount == amount:
            events += ordered[index].event
            gone += 1
            index += 1
        if events:
            level *= 1 - events / risk
            greenwood = greenwood + events / (risk * (risk - events)) if risk > events else math.inf
            steps.append(Step(amount, risk, events, level, *_log_log(level, greenwood, z)))
        risk -= gone
    successes = sum(step.events for step in steps)
    return Curve(len(ordered), successes, len(ordered) - successes, tuple(steps))


def _log_log(level: float, greenwood: float, z: float) -> tuple[float, float]:
    """Interval of a survival share that stays between 0 and 1; the point itself where it cannot be had."""
    if not 0 < level < 1 or not math.isfinite(greenwood):
        return level, level
    half = z * math.sqrt(greenwood) / abs(math.log(level))
    return level ** math.exp(half), level ** math.exp(-half)
