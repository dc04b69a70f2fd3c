"""Group sequential boundaries by recursive numerical integration.

Under the canonical joint distribution (Jennison and Turnbull 2000, chapter 3) the statistics Z_1, …, Z_K of the looks are
multivariate normal with mean θ√I_k and Cov(Z_j, Z_k) = √(I_j/I_k) for j ≤ k. In terms of B_k = Z_k·√t_k, with information
fraction t_k, this is Brownian motion with independent increments, without drift if the methods are equal. The density of B_k
over the paths that crossed no earlier boundary follows from that of B_{k-1} by one integral (Armitage, McPherson and Rowe 1969;
Jennison and Turnbull, chapter 19). The integrals use Gauss-Legendre quadrature.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cache
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

from agentbench.statistics.sequential.rules import Spending

Floats = NDArray[np.float64]

_NORMAL = NormalDist()
_NODES = 32
"""Quadrature nodes per piece of the interval between the boundaries."""
_PIECE = 4.0
"""Largest length of a piece, in standard deviations of the increment that follows."""
_INFINITE = 8.5
"""Boundaries beyond this are treated as never crossed: the probability is below 1e-16."""
_STEPS = 200


def spent(spending: Spending, fraction: float, alpha: float) -> float:
    """Return how much of a two-sided alpha may be used up to an information fraction (Lan and DeMets 1983).

    O'Brien-Fleming type: 4(1 - Φ(z(1 - α/4)/√t)), which is 2(1 - Φ(z(1 - α'/2)/√t)) for each side with α' = α/2.
    Pocock type: α·ln(1 + (e - 1)t).
    """
    if fraction <= 0:
        return 0.0
    if fraction >= 1:
        return alpha
    if spending is Spending.POCOCK:
        return alpha * math.log1p((math.e - 1) * fraction)
    return min(alpha, 2 * math.erfc(_NORMAL.inv_cdf(1 - alpha / 4) / math.sqrt(2 * fraction)))


@cache
def spending_bounds(spending: Spending, fractions: tuple[float, ...], alpha: float) -> tuple[float, ...]:
    """Return the boundaries c_k for |Z_k| at which the spending function is used up to each fraction.

    Raises:
        ValueError: fractions do not increase from above 0 to at most 1.
    """
    _check_fractions(fractions)
    path = OpenPaths()
    bounds = []
    used = 0.0
    for fraction in fractions:
        allowed = spent(spending, fraction, alpha)
        bound = _solve(path, fraction, allowed - used)
        used = allowed
        path.advance(bound, fraction)
        bounds.append(bound)
    return tuple(bounds)


def nominal_level(bound: float) -> float:
    """Return the two-sided p-value that corresponds to a boundary."""
    return math.erfc(bound / math.sqrt(2))


def _check_fractions(fractions: Sequence[float]) -> None:
    if not fractions or any(
        not before < after <= 1 + 1e-12 for before, after in zip((0.0, *fractions), fractions, strict=False)
    ):
        raise ValueError(f"information fractions must increase from above 0 to at most 1, got {list(fractions)}")


class OpenPaths:
    """The density of B over paths that crossed no boundary yet, at quadrature nodes."""

    def __init__(self) -> None:
        self._fraction = 0.0
        self._nodes: Floats = np.zeros(1)
        self._mass: Floats = np.ones(1)
        """Density times quadrature weight at each node."""

    def tails(self, bound: float, fraction: float) -> tuple[float, float]:
        """Return the probability of |Z| ≥ bound for the first time, and how fast it falls as the bound grows."""
        deviation, scale = math.sqrt(fraction - self._fraction), math.sqrt(fraction)
        z = (bound * scale - self._nodes) / deviation
        slope = float(self._mass @ np.exp(-0.5 * z * z)) * scale / (deviation * math.sqrt(2 * math.pi))
        return 2 * float(self._mass @ _upper_tail(z)), 2 * slope

    def advance(self, bound: float, fraction: float) -> None:
        """Move to the next look: the paths between its boundaries continue."""
        deviation = math.sqrt(fraction - self._fraction)
        limit = min(bound, _INFINITE) * math.sqrt(fraction)
        pieces = max(1, math.ceil(2 * limit / (_PIECE * deviation)))
        nodes, weights = _quadrature(limit, pieces)
        kernel = np.exp(-0.5 * ((nodes[:, None] - self._nodes[None, :]) / deviation) ** 2)
        self._mass = weights * (kernel @ self._mass) / (deviation * math.sqrt(2 * math.pi))
        self._nodes, self._fraction = nodes, fraction


def _quadrature(limit: float, pieces: int) -> tuple[Floats, Floats]:
    """Return Gauss-Legendre nodes and weights on [-limit, limit], split into equal pieces."""
    nodes, weights = np.polynomial.legendre.leggauss(_NODES)
    half = limit / pieces
    centres = -limit + half * (2 * np.arange(pieces) + 1)
    return (centres[:, None] + half * nodes[None, :]).ravel(), np.tile(half * weights, pieces)


def _upper_tail(z: Floats) -> Floats:
    root = math.sqrt(2)
    return np.array([0.5 * math.erfc(value / root) for value in z.tolist()])


def _solve(path: OpenPaths, fraction: float, level: float) -> float:
    """Find the bound that paths cross at this look with probability `level`.

    Newton's method on the logarithm of the probability, with bisection as a fallback.
    """
    if level <= 0 or path.tails(_INFINITE, fraction)[0] >= level:
        return math.inf
    low, high, bound = 0.0, _INFINITE, 2.0
    for _ in range(_STEPS):
        crossed, slope = path.tails(bound, fraction)
        low, high = (bound, high) if crossed >= level else (low, bound)
        following = bound + crossed * math.log(crossed / level) / slope
        if not low < following < high:
            following = (low + high) / 2
        if abs(following - bound) < 1e-11:
            break
        bound = following
    return bound
