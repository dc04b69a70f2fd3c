"""Time or cost to success under caps: the Kaplan–Meier estimator with Greenwood's variance (A-06).

An attempt that passed is an event at what it used. One that was stopped by a cap, or that nobody could decide, is censored at
what it had used: it might have succeeded later. One that ended by itself without success would not have: it stays in the
risk set to the end.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from agentbench.statistics.distributions import normal_quantile
from agentbench.statistics.intervals import CONFIDENCE

Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]


class Span(NamedTuple):
    """One attempt: what it used, and whether it succeeded there. `never`: it ended without success by itself."""

    amount: float
    event: bool
    never: bool = False


class Step(NamedTuple):
    """The curve after one amount at which somebody succeeded."""

    amount: float
    at_risk: int
    events: int
    survival: float
    """Share not yet successful."""
    low: float
    high: float
    """Log-log interval of it."""


@dataclass(frozen=True, eq=False)
class Curve:
    attempts: int
    events: int
    amounts: Floats
    """Where somebody succeeded, rising; the other arrays belong to it."""
    at_risk: Floats
    counts: Floats
    survival: Floats
    low: Floats
    high: Floats

    @property
    def censored(self) -> int:
        return self.attempts - self.events

    def step(self, index: int) -> Step:
        return Step(
            float(self.amounts[index]),
            int(self.at_risk[index]),
            int(self.counts[index]),
            float(self.survival[index]),
            float(self.low[index]),
            float(self.high[index]),
        )

    @property
    def steps(self) -> tuple[Step, ...]:
        return tuple(map(self.step, range(self.amounts.size)))

    def at(self, amount: float) -> float:
        """Share not yet successful after this amount."""
        index = int(np.searchsorted(self.amounts, amount, side="right"))
        return float(self.survival[index - 1]) if index else 1.0

    @property
    def median(self) -> float | None:
        """The amount by which half have succeeded; None when the curve never gets there."""
        reached = np.flatnonzero(self.survival <= 0.5)
        return float(self.amounts[reached[0]]) if reached.size else None


def kaplan_meier(spans: Sequence[Span], confidence: float = CONFIDENCE) -> Curve:
    """The curve of `spans`."""
    used, event, never = zip(*spans, strict=True) if spans else ((), (), ())
    return curve(
        np.asarray(used, dtype=np.float64), np.asarray(event, dtype=bool), np.asarray(never, dtype=bool), confidence
    )


def curve(used: Floats, event: Flags, never: Flags, confidence: float = CONFIDENCE) -> Curve:
    """The same from arrays. At the same amount, successes come before censored ones."""
    finite = np.isfinite(used)
    used, event, never = used[finite], event[finite], never[finite]
    leaving = np.sort(used[~never])
    amounts, counts = np.unique(used[event], return_counts=True)
    # Everybody who has not left before is at risk; those who never succeed never leave.
    at_risk = used.size - np.searchsorted(leaving, amounts, side="left")
    survival: Floats = np.cumprod(1 - counts / at_risk).astype(np.float64)
    with np.errstate(divide="ignore"):
        greenwood = np.cumsum(counts / (at_risk * (at_risk - counts)))
    low, high = _log_log(survival, greenwood, normal_quantile(confidence))
    return Curve(
        used.size,
        int(counts.sum()),
        amounts,
        at_risk.astype(np.float64),
        counts.astype(np.float64),
        survival,
        low,
        high,
    )


def _log_log(survival: Floats, greenwood: Floats, z: float) -> tuple[Floats, Floats]:
    """Intervals of survival shares that stay between 0 and 1; the point itself where there is none."""
    low, high = survival.copy(), survival.copy()
    fit = (survival > 0) & (survival < 1) & np.isfinite(greenwood)
    half = z * np.sqrt(greenwood[fit]) / np.abs(np.log(survival[fit]))
    low[fit], high[fit] = survival[fit] ** np.exp(half), survival[fit] ** np.exp(-half)
    return low, high
