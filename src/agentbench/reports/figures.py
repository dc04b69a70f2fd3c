"""Numbers in words: shares, points, intervals, probabilities, times. One way to write each, everywhere."""

from __future__ import annotations

import math
from collections.abc import Sequence

from agentbench.statistics.intervals import Interval
from agentbench.statistics.rates import Proportion


def percent(share: float | None) -> str:
    return "undefined" if share is None else f"{share * 100:.1f}%"


def points(difference: float) -> str:
    """A difference of shares in percentage points, with its sign."""
    return f"{difference * 100:+.1f} points"


def share_interval(interval: Interval | None) -> str:
    if interval is None:
        return "none"
    return f"{interval.low * 100:.1f}% to {interval.high * 100:.1f}%"


def point_interval(interval: Interval | None) -> str:
    if interval is None:
        return "no interval"
    return f"{interval.confidence:.0%} interval {interval.low * 100:+.1f} to {interval.high * 100:+.1f}"


def counted(proportion: Proportion) -> str:
    return f"{proportion.count} of {proportion.total}"


def probability(p: float | None) -> str:
    if p is None:
        return "not given"
    return f"{p:.4f}" if p >= 0.0001 else f"{p:.1e}"


def seconds(duration: float) -> str:
    return f"{duration:.1f} s"


def plural(count: int, noun: str) -> str:
    return f"{count} {noun}" + ("" if count == 1 else "s")


def total(values: Sequence[float]) -> float:
    """The exact sum. What no float can hold is infinite, which every format shows as such, never as a number."""
    try:
        return math.fsum(values)
    except OverflowError:
        return math.inf


def amount(value: float) -> str:
    """A cost or another quantity without a fixed scale."""
    return "beyond measure" if not math.isfinite(value) else f"{value:,.4g}" if abs(value) < 1e15 else f"{value:.3e}"


def finite(value: float | None) -> float | None:
    """For JSON, which has no infinity."""
    return value if value is not None and math.isfinite(value) else None
