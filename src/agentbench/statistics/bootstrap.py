"""Cluster bootstrap of a ratio, vectorised.

Whole clusters (tasks, repositories) are drawn with replacement. Clusters with equal values are interchangeable, so the
number of times each distinct value is drawn is multinomial. This gives the same distribution as drawing clusters one by
one, but the cost depends on the number of distinct values, not of clusters. The seed is fixed: the same records give
the same interval.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from agentbench.core.protocol import PROTOCOL_SEED
from agentbench.statistics.intervals import CONFIDENCE, Interval

RESAMPLES = 10_000
MIN_CLUSTERS = 2
MAX_DISTINCT = 400
"""Above this many distinct clusters, drawing indices is faster than a multinomial."""
_BLOCK_ELEMENTS = 4_000_000

Floats = NDArray[np.float64]


def resampled_ratios(
    numerators: Sequence[float],
    denominators: Sequence[float],
    *,
    resamples: int = RESAMPLES,
    seed: int = PROTOCOL_SEED,
) -> Floats:
    """Return Σ numerators / Σ denominators of each resample.

    Raises:
        ValueError: there are no clusters, or a denominator is not positive.
    """
    top, bottom = np.asarray(numerators, dtype=np.float64), np.asarray(denominators, dtype=np.float64)
    if not top.size or top.shape != bottom.shape or not (bottom > 0).all():
        raise ValueError("every cluster needs a numerator and a positive denominator")
    rng = np.random.default_rng(seed)
    distinct, counts = np.unique(np.stack([top, bottom], axis=1), axis=0, return_counts=True)
    if len(distinct) <= MAX_DISTINCT:
        drawn = rng.multinomial(top.size, counts / top.size, size=resamples).astype(np.float64)
        sums = drawn @ distinct
        return np.asarray(sums[:, 0] / sums[:, 1])
    ratios = np.empty(resamples)
    step = max(1, _BLOCK_ELEMENTS // top.size)
    for start in range(0, resamples, step):
        size = min(step, resamples - start)
        indices = rng.integers(0, top.size, size=(size, top.size))
        ratios[start : start + size] = top[indices].sum(axis=1) / bottom[indices].sum(axis=1)
    return ratios


def bootstrap_interval(
    numerators: Sequence[float],
    denominators: Sequence[float] | None = None,
    *,
    by: str = "task",
    confidence: float = CONFIDENCE,
    resamples: int = RESAMPLES,
    seed: int = PROTOCOL_SEED,
) -> Interval | None:
    """Return the percentile interval, or None with fewer than two clusters or no variance between them."""
    bottom = denominators if denominators is not None else [1.0] * len(numerators)
    if len(numerators) < MIN_CLUSTERS:
        return None
    ratios = resampled_ratios(numerators, bottom, resamples=resamples, seed=seed)
    tail = (1 - confidence) / 2
    low, high = (float(bound) for bound in np.quantile(ratios, (tail, 1 - tail)))
    if low == high:
        return None
    return Interval(low, high, confidence, f"bootstrap, clustered by {by}, {resamples} resamples")
