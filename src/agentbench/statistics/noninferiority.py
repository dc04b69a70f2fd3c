"""Non-inferiority: B is not worse than A by more than a margin that was chosen beforehand (A-03)."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from agentbench.statistics.intervals import Interval


class Standing(StrEnum):
    HOLDS = "holds"
    FAILS = "fails"
    """The whole interval lies beyond the margin: B is worse by more."""
    UNDECIDED = "undecided"


@dataclass(frozen=True, slots=True)
class NonInferiority:
    margin: float
    alpha: float
    """One-sided."""
    low: float | None
    """Lower bound of B minus A; None when there is no interval."""
    standing: Standing


def non_inferior(interval: Interval | None, margin: float, alpha: float) -> NonInferiority:
    """Judge a two-sided interval of B minus A at confidence 1 - 2α, which is a one-sided test at α.

    Raises:
        ValueError: the interval has another confidence.
    """
    if interval is None:
        return NonInferiority(margin, alpha, None, Standing.UNDECIDED)
    if abs(interval.confidence - (1 - 2 * alpha)) > 1e-9:
        msg = f"a one-sided test at {alpha} needs an interval at {1 - 2 * alpha:g}, not {interval.confidence:g}"
        raise ValueError(msg)
    standing = Standing.UNDECIDED
    if interval.low > -margin:
        standing = Standing.HOLDS
    elif interval.high < -margin:
        standing = Standing.FAILS
    return NonInferiority(margin, alpha, interval.low, standing)
