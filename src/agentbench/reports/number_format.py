"""Number formats shared by all reports: shares, points, intervals, p-values, times, costs."""

from __future__ import annotations

import math
from collections.abc import Sequence

from agentbench.statistics.intervals import Interval
from agentbench.statistics.rates import Proportion


def percent(share: float | None) -> str:
    return "undefined" if share is None else f"{share * 100:.1f}%"


def points(difference: float) -> str:
    """Format a difference of shares as signed percentage points."""
    return f"{difference * 100:+.1f} points"


def share_interval(interval: Interval | None) -> str:
    if interval is None:
        return "none"
    return f"{interval.low * 100:.1f}% to {interval.high * 100:.1f}%"


def point_interval(interval: Interval | None) -> str:
    if interval is None:
        return "no CI"
    return f"{interval.confidence:.0%} CI {interval.low * 100:+.1f} to {interval.high * 100:+.1f}"


def counted(proportion: Proportion) -> str:
    return f"{proportion.count} of {proportion.total}"


def probability(p: float | None) -> str:
    return "" if p is None else f"{p:.3g}"


def seconds(duration: float) -> str:
    return f"{duration:.1f} s"


def plural(count: int, noun: str) -> str:
    return f"{count} {noun}" + ("" if count == 1 else "s")


def total(values: Sequence[float]) -> float:
    """Return the exact sum, or infinity if a float cannot hold it."""
    try:
        return math.fsum(values)
    except OverflowError:
        return math.inf


def amount(value: float) -> str:
    """Format a cost or another quantity without a fixed scale."""
    return "overflow" if not math.isfinite(value) else f"{value:,.4g}" if abs(value) < 1e15 else f"{value:.3e}"


def finite(value: float | None) -> float | None:
    """Replace infinity and NaN by None, because JSON has neither."""
    return value if value is not None and math.isfinite(value) else None
