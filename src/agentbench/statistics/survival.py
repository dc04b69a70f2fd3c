"""Time or cost to success under caps: the Kaplan–Meier estimator with Greenwood's variance.

An attempt that passed is an event at the amount it used. An attempt stopped by a cap, or undecided, is censored at the
amount it had used: it might have passed later. An attempt that ended on its own without passing stays in the risk set
to the end.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from agentbench.statistics.distributions import normal_quantile
from agentbench.statistics.intervals import CONFIDENCE

Floats = NDArray[np.float64]


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


@dataclass(frozen=True, eq=False)
class Curve:
    attempts: int
    events: int
    amounts: Floats
    """Amounts at which attempts passed, ascending; the arrays below are parallel to it."""
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
        """Return the share of attempts that have not passed after this amount."""
        index = int(np.searchsorted(self.amounts, amount, side="right"))
        return float(self.survival[index - 1]) if index else 1.0

    @property
    def median(self) -> float | None:
        """The amount by which half of the attempts have passed, or None if fewer than half did."""
        reached = np.flatnonzero(self.survival <= 0.5)
        return float(self.amounts[reached[0]]) if reached.size else None


def kaplan_meier(
    amounts_used: ArrayLike, passed: ArrayLike, never_passes: ArrayLike, confidence: float = CONFIDENCE
) -> Curve:
    """Estimate the curve from the amount that each attempt used, whether it passed, and whether it ended without passing.

    At equal amounts, passes count before censored attempts.
    """
    used = np.asarray(amounts_used, dtype=np.float64)
    event, never = np.asarray(passed, dtype=bool), np.asarray(never_passes, dtype=bool)
    finite = np.isfinite(used)
    used, event, never = used[finite], event[finite], never[finite]
    leaving = np.sort(used[~never])
    amounts, counts = np.unique(used[event], return_counts=True)
    # An attempt is at risk until it passes or is censored; one that never passes stays at risk.
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
    """Return log-log interval bounds, which stay between 0 and 1; the point itself where none is defined."""
    low, high = survival.copy(), survival.copy()
    defined = (survival > 0) & (survival < 1) & np.isfinite(greenwood)
    half = z * np.sqrt(greenwood[defined]) / np.abs(np.log(survival[defined]))
    low[defined], high[defined] = survival[defined] ** np.exp(half), survival[defined] ** np.exp(-half)
    return low, high
