"""Cluster bootstrap of a ratio, vectorised.

Clusters (tasks, repositories) are drawn with replacement, whole. Clusters that look alike are interchangeable, so the number of
times each *kind* is drawn is multinomial: the same distribution as drawing one cluster after the other, at a cost that
depends on how many kinds there are and not on how many clusters. The seed is fixed: the same records give the same interval.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from agentbench.core.protocol import PROTOCOL_SEED
from agentbench.statistics.intervals import CONFIDENCE, Interval

RESAMPLES = 10_000
FEWEST_CLUSTERS = 2
MOST_KINDS = 400
"""Above this many kinds, drawing indices is quicker than a multinomial."""
_BLOCK = 4_000_000

Floats = NDArray[np.float64]


def resampled_ratios(
    numerators: Sequence[float],
    denominators: Sequence[float],
    *,
    resamples: int = RESAMPLES,
    seed: int = PROTOCOL_SEED,
) -> Floats:
    """Σ numerators / Σ denominators of each resample.

    Raises:
        ValueError: nothing to draw from, or a cluster without weight.
    """
    top, bottom = np.asarray(numerators, dtype=np.float64), np.asarray(denominators, dtype=np.float64)
    if not top.size or top.shape != bottom.shape or not (bottom > 0).all():
        msg = "every cluster needs a numerator and a positive denominator"
        raise ValueError(msg)
    rng = np.random.default_rng(seed)
    kinds, counts = np.unique(np.stack([top, bottom], axis=1), axis=0, return_counts=True)
    if len(kinds) <= MOST_KINDS:
        drawn = rng.multinomial(top.size, counts / top.size, size=resamples).astype(np.float64)
        sums = drawn @ kinds
        return np.asarray(sums[:, 0] / sums[:, 1])
    found = np.empty(resamples)
    step = max(1, _BLOCK // top.size)
    for start in range(0, resamples, step):
        many = min(step, resamples - start)
        picked = rng.integers(0, top.size, size=(many, top.size))
        found[start : start + many] = top[picked].sum(axis=1) / bottom[picked].sum(axis=1)
    return found


def bootstrap_interval(
    numerators: Sequence[float],
    denominators: Sequence[float] | None = None,
    *,
    by: str = "task",
    confidence: float = CONFIDENCE,
    resamples: int = RESAMPLES,
    seed: int = PROTOCOL_SEED,
) -> Interval | None:
    """The percentile interval; None with fewer than two clusters or without any spread between them."""
    bottom = denominators if denominators is not None else [1.0] * len(numerators)
    if len(numerators) < FEWEST_CLUSTERS:
        return None
    ratios = resampled_ratios(numerators, bottom, resamples=resamples, seed=seed)
    tail = (1 - confidence) / 2
    low, high = (float(one) for one in np.quantile(ratios, (tail, 1 - tail)))
    if low == high:
        return None
    return Interval(low, high, confidence, f"bootstrap, clustered by {by}, {resamples} resamples")
