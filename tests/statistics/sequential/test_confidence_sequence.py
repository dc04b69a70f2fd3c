"""The betting bounds hold at every look: by exact enumeration, and at all sample sizes at once."""

from __future__ import annotations

import math
from fractions import Fraction
from itertools import product

import numpy as np
import pytest

from agentbench.statistics.sequential.confidence_sequence import confidence_bounds, count_values, log_e_values

pytestmark = pytest.mark.component


def e_value(values: tuple[float, ...], mean: float = 0.0) -> float:
    distinct, counts = count_values(values)
    return math.exp(float(log_e_values(distinct, counts, mean)))


@pytest.mark.parametrize("mean", [0.0, 0.3, -0.5])
def test_expected_capital_stays_at_one_under_the_hypothesis(mean: float) -> None:
    # x is 1 or -1 with this mean; the expectation over all outcomes of five tasks.
    chance = {1.0: (1 + mean) / 2, -1.0: (1 - mean) / 2}
    expected = sum(
        math.prod(chance[value] for value in values) * e_value(values, mean) for values in product(chance, repeat=5)
    )
    assert expected == pytest.approx(1.0)


def test_capital_ever_reaches_twenty_in_at_most_a_twentieth_of_all_paths() -> None:
    """Count all paths of 14 discordant tasks, each side equally likely, and stop at the first crossing."""
    paths = {(0, 0): Fraction(1)}
    crossed = Fraction(0)
    for _ in range(14):
        after: dict[tuple[int, int], Fraction] = {}
        for (wins, losses), share in paths.items():
            for state in ((wins + 1, losses), (wins, losses + 1)):
                after[state] = after.get(state, Fraction(0)) + share / 2
        paths = {}
        for (wins, losses), share in after.items():
            if e_value((1.0,) * wins + (-1.0,) * losses) >= 20:
                crossed += share
            else:
                paths[wins, losses] = share
    assert 0 < crossed <= Fraction(1, 20)


def test_bounds_cover_the_mean_at_all_sizes_together() -> None:
    rng = np.random.default_rng(20260307)
    studies, tasks, mean = 400, 80, 0.2
    values = rng.choice([-1, 0, 1], p=[0.2, 0.4, 0.4], size=(studies, tasks))
    missed = np.zeros(studies, dtype=bool)
    distinct = np.array([-1.0, 0.0, 1.0])
    for size in range(1, tasks + 1):
        counts = (values[:, :size, None] == distinct).sum(axis=1)
        above = log_e_values(distinct, counts, mean) >= math.log(40)
        below = log_e_values(-distinct, counts, -mean) >= math.log(40)
        missed |= above | below
    assert missed.mean() <= 0.05


@pytest.mark.parametrize("values", [(1.0,) * 12, (0.0,) * 40, (0.5, -0.25, 0.0, 1.0) * 5, (1.0,)])
def test_bounds_are_where_the_capital_reaches_the_threshold(values: tuple[float, ...]) -> None:
    low, high = confidence_bounds(values, 0.05)
    assert low < high
    assert confidence_bounds([-value for value in values], 0.05) == pytest.approx((-high, -low))
    if low > -0.999:
        assert e_value(values, low) == pytest.approx(40, rel=1e-4)


def test_more_equal_tasks_bound_the_difference_more_closely() -> None:
    widths = [confidence_bounds([0.0] * tasks, 0.05)[1] for tasks in (10, 40, 160)]
    assert widths == sorted(widths, reverse=True)
    assert widths[-1] < 0.05
