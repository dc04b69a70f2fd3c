"""The tests of `paired`, for many simulated comparisons at once: which of them are significant."""

from __future__ import annotations

import math
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]

MAX_EXACT_SUM = 256
"""Up to this sum of absolute differences, in attempts, the sign-flip distribution is exact; above, it is almost normal."""
_TIE = 1 + 1e-9
"""A p-value that equals the level is significant; this absorbs rounding."""
_ROWS = 256


def mid_p_significant(only_a: Ints, only_b: Ints, alpha: float) -> Bools:
    """Decide McNemar's mid-p test for each pair of discordant counts."""
    total, smaller = only_a + only_b, np.minimum(only_a, only_b)
    critical = {int(number): _critical_mid_p(int(number), alpha) for number in np.unique(total)}
    return smaller <= np.asarray([critical[int(number)] for number in total])


def _critical_mid_p(total: int, alpha: float) -> int:
    """Return the largest smaller count that is significant among `total` discordant tasks; -1 if none is."""
    below, shares = 0.0, -total * math.log(2)
    for smaller in range(total // 2 + 1):
        share = math.exp(shares)
        mirrored = 1 if 2 * smaller == total else 2
        p = 1.0 if not total else 2 * below + mirrored * share / 2
        if p > alpha * _TIE:
            return smaller - 1
        below += share
        shares += math.log(total - smaller) - math.log(smaller + 1) if smaller < total else 0.0
    return total // 2


def sign_flip_significant(steps: Ints, repeats: int, alpha: float) -> Bools:
    """Decide the sign-flip test for each row of per-task differences, in attempts from -repeats to repeats."""
    sizes, observed = np.abs(steps), np.abs(steps.sum(axis=1))
    largest = sizes.sum(axis=1)
    significant = _almost_normal(sizes, observed, alpha)
    exact = largest <= MAX_EXACT_SUM
    if exact.any():
        counts = np.stack([(sizes[exact] == size).sum(axis=1) for size in range(1, repeats + 1)], axis=1)
        rows, inverse = np.unique(np.column_stack([counts, observed[exact]]), axis=0, return_inverse=True)
        p_values = np.concatenate([_flip_p_values(rows[at : at + _ROWS]) for at in range(0, len(rows), _ROWS)])
        significant[exact] = (p_values <= alpha * _TIE)[inverse.reshape(-1)]
    return significant


def _almost_normal(sizes: Ints, observed: Ints, alpha: float) -> Bools:
    """Decide with a normal approximation, corrected for continuity. Few differing tasks are never significant."""
    differing = (sizes > 0).sum(axis=1)
    deviation = np.sqrt((sizes.astype(np.float64) ** 2).sum(axis=1))
    smallest = np.where(sizes > 0, sizes, sizes.max(initial=1)).min(axis=1)
    critical = NormalDist().inv_cdf(1 - alpha / 2)
    reachable = differing >= math.ceil(math.log2(2 / alpha))
    return np.asarray(reachable & (observed - smallest >= critical * deviation))


def _flip_p_values(rows: Ints) -> NDArray[np.float64]:
    """Return p-values. A row has the number of tasks that differ by 1, 2, … attempts, and the observed sum.

    The sum of randomly signed differences has the characteristic function Π cos(k·t)^(number of tasks that differ by k).
    """
    counts, observed = rows[:, :-1], rows[:, -1]
    largest = int((counts * np.arange(1, counts.shape[1] + 1)).sum(axis=1).max(initial=0))
    length = 2 * (largest + 1)
    angles = 2 * np.pi * np.arange(length // 2 + 1) / length
    transform = np.ones((len(rows), len(angles)))
    for index in np.flatnonzero(counts.any(axis=0)):
        transform *= np.cos((index + 1) * angles)[None, :] ** counts[:, index, None]
    shares = np.fft.irfft(transform, n=length, axis=1)[:, : largest + 1]
    tails = np.cumsum(shares[:, ::-1], axis=1)[:, ::-1]
    return np.where(observed > 0, 2 * tails[np.arange(len(rows)), observed], 1.0)
