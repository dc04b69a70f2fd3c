"""Quantiles of observed values."""

from __future__ import annotations

from collections.abc import Sequence


def quantile(ordered: Sequence[float], share: float) -> float:
    """Interpolate linearly between the two nearest of the values, which are sorted and not empty."""
    position = share * (len(ordered) - 1)
    index = int(position)
    low, high = ordered[index], ordered[min(index + 1, len(ordered) - 1)]
    return low + (high - low) * (position - index)
