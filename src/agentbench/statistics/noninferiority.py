"""Non-inferiority: B is not worse than A by more than a margin chosen in advance."""

from __future__ import annotations

from enum import StrEnum

from agentbench.statistics.intervals import Interval


class Conclusion(StrEnum):
    """Outcome of a condition that a comparison must meet."""

    HOLDS = "holds"
    FAILS = "fails"
    UNDECIDED = "undecided"


def non_inferior(interval: Interval | None, margin: float, alpha: float) -> Conclusion:
    """Test non-inferiority with a two-sided interval of B - A at confidence 1 - 2α, a one-sided test at α.

    It fails when the whole interval lies below -margin.

    Raises:
        ValueError: the interval has a different confidence.
    """
    if interval is None:
        return Conclusion.UNDECIDED
    if abs(interval.confidence - (1 - 2 * alpha)) > 1e-9:
        raise ValueError(f"a one-sided test at {alpha} needs a {1 - 2 * alpha:g} interval, got {interval.confidence:g}")
    if interval.low > -margin:
        return Conclusion.HOLDS
    return Conclusion.FAILS if interval.high < -margin else Conclusion.UNDECIDED
