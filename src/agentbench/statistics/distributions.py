"""Quantiles of the normal distribution and of Student's t."""

from __future__ import annotations

import math
from functools import cache
from statistics import NormalDist

_ITERATIONS = 300
_TINY = 1e-300


def normal_quantile(confidence: float) -> float:
    """Return the z with probability `confidence` between -z and z."""
    return NormalDist().inv_cdf(0.5 + confidence / 2)


@cache
def t_quantile(confidence: float, freedom: int) -> float:
    """Return the t with probability `confidence` between -t and t.

    Raises:
        ValueError: `freedom` is less than 1.
    """
    if freedom < 1:
        raise ValueError("Student's t needs at least one degree of freedom")
    low, high = 0.0, 1.0
    while _t_mass(high, freedom) < confidence:
        low, high = high, high * 2
    # Newton's method with bisection as a fallback: converges in a few steps instead of one per bit.
    t = min(high, max(low, normal_quantile(confidence)))
    for _ in range(_ITERATIONS):
        excess = _t_mass(t, freedom) - confidence
        low, high = (low, t) if excess >= 0 else (t, high)
        following = t - excess / (2 * _t_density(t, freedom))
        if not low <= following <= high:
            following = (low + high) / 2
        if abs(following - t) <= 1e-13 * t or following in (low, high):
            return following
        t = following
    return t


def _t_density(t: float, freedom: int) -> float:
    scale = math.exp(math.lgamma((freedom + 1) / 2) - math.lgamma(freedom / 2)) / math.sqrt(freedom * math.pi)
    return float(scale * (1 + t * t / freedom) ** (-(freedom + 1) / 2))


def _t_mass(t: float, freedom: int) -> float:
    """Return P(|T| ≤ t)."""
    return 1.0 - _incomplete_beta(freedom / 2, 0.5, freedom / (freedom + t * t))


def _incomplete_beta(a: float, b: float, x: float) -> float:
    """Return the regularised I_x(a, b) from its continued fraction, on the side where it converges fast."""
    if x <= 0 or x >= 1:
        return float(x >= 1)
    if x > (a + 1) / (a + b + 2):
        return 1.0 - _incomplete_beta(b, a, 1.0 - x)
    front = math.exp(math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b) + a * math.log(x) + b * math.log1p(-x))
    return front / a / _fraction(a, b, x)


def _fraction(a: float, b: float, x: float) -> float:
    """Evaluate the continued fraction 1 + d1/(1 + d2/(1 + …)) from its last term."""
    value = 1.0
    for step in range(_ITERATIONS, 0, -1):
        m = step // 2
        if step % 2:
            term = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1))
        else:
            term = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m))
        value = 1.0 + term / (value or _TINY)
    return value
