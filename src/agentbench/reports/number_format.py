"""Number formats shared by all reports: shares, points, intervals, p-values, times, costs."""

from __future__ import annotations

import math
from collections.abc import Sequence

from agentbench.statistics.intervals import ALPHA, Interval
from agentbench.statistics.rates import Proportion

MAX_DECIMALS = 9
"""Decimals of percentage points beyond which two numbers are the same."""


def percent(share: float | None) -> str:
    return "undefined" if share is None else f"{share * 100:.1f}%"


def points(difference: float, *limits: float) -> str:
    """Format a difference of shares as signed percentage points, with digits that show on which side of `limits` it is."""
    return f"{_signed_points(difference, limits)} points"


def points_limit(limit: float) -> str:
    """Format a limit that a user chose in percentage points, with all its digits."""
    value = round(limit * 100, MAX_DECIMALS)
    return f"{value:.1f}" if round(value, 1) == value else f"{value:g}"


def share_interval(interval: Interval | None) -> str:
    if interval is None:
        return "none"
    return f"{interval.low * 100:.1f}% to {interval.high * 100:.1f}%"


def point_interval(interval: Interval | None, *limits: float) -> str:
    """Format an interval of differences, with digits that show on which side of 0 and of `limits` its bounds are."""
    if interval is None:
        return "no CI"
    low, high = (_signed_points(bound, (0.0, *limits)) for bound in (interval.low, interval.high))
    return f"{interval.confidence:.0%} CI {low} to {high}"


def _signed_points(difference: float, limits: Sequence[float]) -> str:
    value = difference * 100
    for decimals in range(1, MAX_DECIMALS):
        text = f"{value:+.{decimals}f}"
        if all(_side(float(text), limit * 100) == _side(value, limit * 100) for limit in limits):
            return text
    return f"{value:+.{MAX_DECIMALS}f}"


def _side(value: float, limit: float) -> int:
    """Return -1 below the limit, 0 at it, or 1 above it."""
    return 0 if math.isclose(value, limit, abs_tol=10**-MAX_DECIMALS) else 1 if value > limit else -1


def counted(proportion: Proportion) -> str:
    return f"{proportion.count} of {proportion.total}"


def probability(p: float | None) -> str:
    """Format a p-value, with digits that show on which side of the significance level it is."""
    if p is None:
        return ""
    texts = (f"{p:.{digits}g}" for digits in range(3, 16))
    return next((text for text in texts if (float(text) <= ALPHA) == (p <= ALPHA)), repr(p))


def seconds(duration: float) -> str:
    return f"{duration:.1f} s"


def plural(count: int, noun: str) -> str:
    return f"{count} {noun}" + ("" if count == 1 else "s")


def attempts_passed(passed: int, counted: int, invalid: int) -> str:
    """Format how many attempts passed, of those that count in the contract rate, and how many are outside of it."""
    outside = f", {invalid} invalid and in no rate" if invalid else ""
    return f"{passed} of {plural(counted, 'attempt')} passed{outside}"


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
