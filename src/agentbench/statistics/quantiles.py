"""Quantiles of observed values."""

from __future__ import annotations

from collections.abc import Sequence


def quantile(ordered: Sequence[float], share: float) -> float:
    """Interpolate linearly between the two nearest of the values, which are sorted and not empty."""
    position = share * (len(ordered) - 1)
    index = int(position)
    low, high = ordered[index], ordered[min(index + 1, len(ordered) - 1)]
    part = position - index
    # From the nearer of the two, as numpy does: the same values give the same digits.
    return low + (high - low) * part if part < 0.5 else high - (high - low) * (1 - part)
