"""Comparisons of several methods, against independent computations."""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Sequence

import numpy as np
import pytest

from agentbench.statistics.multiple import PRIOR_WINS, best_set, bradley_terry, front, holm


def closed_test(p_values: Sequence[float]) -> list[float]:
    """Holm's adjusted p-values by their definition: the closure of Bonferroni's test over all sets of hypotheses."""
    size = len(p_values)
    sets = [chosen for count in range(1, size + 1) for chosen in itertools.combinations(range(size), count)]
    return [
        max(min(1.0, len(chosen) * min(p_values[i] for i in chosen)) for chosen in sets if index in chosen)
        for index in range(size)
    ]


@pytest.mark.parametrize("seed", range(20))
def test_holm_equals_the_closed_bonferroni_test(seed: int) -> None:
    source = random.Random(seed)
    p_values = [source.choice([source.random(), source.random() / 20, 0.03]) for _ in range(source.randint(1, 7))]
    assert holm(p_values) == pytest.approx(closed_test(p_values))


def test_holm_of_a_published_example() -> None:
    assert holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert holm([]) == []


@pytest.mark.parametrize("seed", range(5))
def test_strengths_maximise_the_likelihood(seed: int) -> None:
    from scipy.optimize import minimize  # type: ignore[import-untyped]

    source = random.Random(seed)
    size = source.randint(2, 5)
    wins = [[0.0 if i == j else float(source.randint(0, 12)) for j in range(size)] for i in range(size)]

    def negative(strengths: np.ndarray) -> float:
        pairs = itertools.permutations(range(size), 2)
        return sum((wins[i][j] + PRIOR_WINS) * math.log1p(math.exp(strengths[j] - strengths[i])) for i, j in pairs)

    fitted = minimize(negative, np.zeros(size), method="BFGS", options={"gtol": 1e-9}).x
    assert bradley_terry(wins) == pytest.approx(fitted - fitted.mean(), abs=1e-4)


def test_method_that_wins_everything_has_a_finite_strength() -> None:
    strong, weak = bradley_terry([[0, 10], [0, 0]])
    assert strong == -weak == pytest.approx(math.log(10.5 / 0.5) / 2)


def test_best_set_has_every_method_that_none_beats() -> None:
    assert best_set(3, []) == [0, 1, 2]
    assert best_set(4, [(0, 2), (0, 3), (1, 3)]) == [0, 1]


def test_front_has_the_points_that_none_dominates() -> None:
    points = [(3.0, 0.9), (1.0, 0.5), (2.0, 0.5), (2.0, 0.7), (4.0, 0.9), (1.0, 0.5)]
    assert front(points) == [1, 5, 3, 0]
