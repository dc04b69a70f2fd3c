"""Anytime-valid bounds of a mean by betting (Waudby-Smith and Ramdas 2024).

Each task contributes a value x in [-1, 1], the mean difference of its blocks. Against the hypothesis that the mean is at
most m, a gambler who bets the fraction u of the capital on every task owns

    W(u, m) = Π (1 - u + u·(1 + x)/(1 + m)).

Under the hypothesis every factor has expectation at most 1, so W is a nonnegative supermartingale that starts at 1, and
so is its average over fixed bets u. By Ville's inequality it ever reaches 1/α with probability at most α: for every
number of tasks, at every look, whatever the distribution of x. Every factor falls as m grows, so the hypotheses that
are not rejected form an interval (m, 1]. The other side follows by exchanging the methods.

The average over bets replaces a tuned bet. It does not depend on the order of the tasks.

Repeats. Later blocks of a task are not independent of its first one, so they are no new bets. Instead there is one
gambler per number of repeats r = 1, …, R, who bets once per task, on the mean of its first r blocks. Each of them keeps
its own error rate α/R for all looks together, so all of them together keep α.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

_BETS = 40
_STEPS = 40


def _bets() -> tuple[Floats, Floats]:
    """Return the bets and the logarithms of their weights, which are uniform between 0 and 1."""
    nodes, weights = np.polynomial.legendre.leggauss(_BETS)
    return (nodes + 1) / 2, np.log(weights / 2)


BETS, _LOG_WEIGHTS = _bets()


def log_e_values(distinct: Floats, counts: NDArray[np.int64], mean: float = 0.0) -> Floats:
    """Return the logarithms of e-values against a mean of at most `mean`.

    `counts` has how often each of the distinct values (between -1 and 1) occurs, in its last axis; other axes are studies.
    """
    factors = np.log1p(np.outer((distinct - mean) / (1 + mean), BETS))
    capital = counts @ factors + _LOG_WEIGHTS
    peak = capital.max(axis=-1, keepdims=True)
    return np.asarray(peak[..., 0] + np.log(np.exp(capital - peak).sum(axis=-1)))


def count_values(values: Sequence[float]) -> tuple[Floats, NDArray[np.int64]]:
    """Return the distinct values and how often each occurs."""
    distinct, counts = np.unique(np.asarray(values, dtype=np.float64), return_counts=True)
    return distinct, counts.astype(np.int64)


def confidence_bounds(values: Sequence[float], alpha: float) -> tuple[float, float]:
    """Return the bounds of the mean: each side is wrong at any look with probability at most alpha / 2."""
    distinct, counts = count_values(values)
    threshold = math.log(2 / alpha)
    return _lower_bound(distinct, counts, threshold), -_lower_bound(-distinct, counts, threshold)


def _lower_bound(distinct: Floats, counts: NDArray[np.int64], threshold: float) -> float:
    """Find the largest mean that is rejected as an upper limit of the mean, or -1 if none is."""
    low, high = -1.0, 1.0
    for _ in range(_STEPS):
        middle = (low + high) / 2
        if log_e_values(distinct, counts, middle) >= threshold:
            low = middle
        else:
            high = middle
    return low
