"""Boundaries agree with published tables, and crossing probabilities with the multivariate normal distribution."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np
import pytest

from agentbench.statistics.sequential.boundaries import (
    OpenPaths,
    nominal_level,
    spending_bounds,
    spent,
)
from agentbench.statistics.sequential.rules import Spending

pytestmark = pytest.mark.component

POCOCK = (1.960, 2.178, 2.289, 2.361, 2.413, 2.453, 2.485, 2.512, 2.535, 2.555)
"""C_P(K, 0.05) for K = 1, …, 10: Jennison and Turnbull 2000, table 2.1."""
OBRIEN_FLEMING = (1.960, 1.977, 2.004, 2.024, 2.040, 2.053, 2.063, 2.072, 2.080, 2.087)
"""C_B(K, 0.05) for K = 1, …, 10: Jennison and Turnbull 2000, table 2.3."""


def equal_looks(looks: int) -> tuple[float, ...]:
    return tuple(look / looks for look in range(1, looks + 1))


def crossed(bounds: Sequence[float], fractions: Sequence[float]) -> list[float]:
    """Return the probability of |Z_k| ≥ bounds[k] for the first time at each look."""
    paths = OpenPaths()
    probabilities = []
    for bound, fraction in zip(bounds, fractions, strict=True):
        probabilities.append(paths.tails(bound, fraction)[0])
        paths.advance(bound, fraction)
    return probabilities


def constant(shape: Callable[[float], list[float]], looks: int) -> float:
    """Find the constant of a boundary of a given shape that is crossed with probability 0.05."""
    low, high = 1.0, 4.0
    for _ in range(40):
        middle = (low + high) / 2
        above = sum(crossed(shape(middle), equal_looks(looks))) > 0.05
        low, high = (middle, high) if above else (low, middle)
    return high


@pytest.mark.parametrize("looks", range(1, 11))
def test_pocock_constants_agree_with_the_published_table(looks: int) -> None:
    assert constant(lambda value: [value] * looks, looks) == pytest.approx(POCOCK[looks - 1], abs=0.0006)


@pytest.mark.parametrize("looks", range(1, 11))
def test_obrien_fleming_constants_agree_with_the_published_table(looks: int) -> None:
    def shape(value: float) -> list[float]:
        return [value * math.sqrt(looks / look) for look in range(1, looks + 1)]

    assert constant(shape, looks) == pytest.approx(OBRIEN_FLEMING[looks - 1], abs=0.0006)


@pytest.mark.parametrize(
    "spending, published",
    [
        (Spending.OBRIEN_FLEMING, (4.877, 3.357, 2.680, 2.290, 2.031)),
        (Spending.POCOCK, (2.438, 2.427, 2.410, 2.397, 2.386)),
    ],
)
def test_spending_bounds_agree_with_published_values(spending: Spending, published: tuple[float, ...]) -> None:
    """Two-sided 0.05, five equal looks: the Lan-DeMets program (Reboussin, DeMets, Kim and Lan 2000)."""
    bounds = spending_bounds(spending, equal_looks(5), 0.05)
    assert bounds == pytest.approx(published, abs=0.001)


@pytest.mark.parametrize("spending", Spending)
@pytest.mark.parametrize("fractions", [(1.0,), (0.1, 0.15, 0.9, 1.0), equal_looks(20)])
def test_each_look_spends_what_the_function_allows(spending: Spending, fractions: tuple[float, ...]) -> None:
    bounds = spending_bounds(spending, fractions, 0.05)
    allowed = [spent(spending, fraction, 0.05) for fraction in fractions]
    assert np.cumsum(crossed(bounds, fractions)) == pytest.approx(allowed, abs=1e-9)


def test_a_single_look_is_the_fixed_design() -> None:
    (bound,) = spending_bounds(Spending.OBRIEN_FLEMING, (1.0,), 0.05)
    assert nominal_level(bound) == pytest.approx(0.05)


def test_crossing_probabilities_agree_with_the_multivariate_normal() -> None:
    from scipy import stats  # type: ignore[import-untyped]

    fractions, bounds = np.array([0.3, 0.7, 1.0]), [2.5, 2.2, 2.0]
    covariance = np.sqrt(np.minimum.outer(fractions, fractions) / np.maximum.outer(fractions, fractions))
    inside = stats.multivariate_normal(np.zeros(3), covariance, seed=1).cdf(bounds, lower_limit=np.negative(bounds))
    assert math.fsum(crossed(bounds, tuple(fractions))) == pytest.approx(1 - inside, abs=2e-5)


def test_an_early_look_can_be_closed_for_a_decision() -> None:
    bounds = spending_bounds(Spending.OBRIEN_FLEMING, (0.02, 1.0), 0.05)
    assert bounds[0] == math.inf
    assert nominal_level(bounds[0]) == 0


@pytest.mark.parametrize("fractions", [(), (0.0, 1.0), (0.5, 0.5), (0.7, 0.3), (0.5, 1.2)])
def test_fractions_that_do_not_increase_are_refused(fractions: tuple[float, ...]) -> None:
    with pytest.raises(ValueError, match="must increase"):
        spending_bounds(Spending.POCOCK, fractions, 0.05)
