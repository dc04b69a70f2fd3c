from __future__ import annotations

import itertools

import pytest

from agentbench.statistics.repeats import pass_at, pass_hat, pass_k

pytestmark = pytest.mark.component


@pytest.mark.req("A-02")
@pytest.mark.parametrize("attempts", range(1, 8))
def test_pass_k_matches_enumerated_subsets(attempts: int) -> None:
    for passed in range(attempts + 1):
        outcomes = [1] * passed + [0] * (attempts - passed)
        for k in range(1, attempts + 1):
            subsets = list(itertools.combinations(outcomes, k))
            assert pass_at(passed, attempts, k) == pytest.approx(sum(map(any, subsets)) / len(subsets))
            assert pass_hat(passed, attempts, k) == pytest.approx(sum(map(all, subsets)) / len(subsets))


@pytest.mark.req("A-02")
def test_pass_at_k_reproduces_a_published_value() -> None:
    """Chen et al. 2021, the estimator of HumanEval: n = 200, c = 10, k = 10."""
    product = 1.0
    for index in range(191, 201):
        product *= 1 - 10 / index
    assert pass_at(10, 200, 10) == pytest.approx(1 - product)


def test_tasks_with_too_few_attempts_are_excluded() -> None:
    results = pass_k([(1, 1), (1, 2), (2, 2), (0, 0)])
    assert [(result.k, result.tasks) for result in results] == [(1, 3), (2, 2)]
    assert results[0].any_of == results[0].all_of == pytest.approx((1 + 0.5 + 1) / 3)
    assert (results[1].any_of, results[1].all_of) == (1.0, 0.5)
    assert pass_k([]) == ()
    with pytest.raises(ValueError, match="k = 3"):
        pass_at(1, 2, 3)
