from __future__ import annotations

import itertools

import pytest

from agentbench.statistics.repeats import pass_at, pass_hat, pass_k


@pytest.mark.req("A-02")
@pytest.mark.parametrize("attempts", range(1, 8))
def test_pass_at_k_and_pass_hat_k_are_what_drawing_every_subset_gives(attempts: int) -> None:
    for good in range(attempts + 1):
        outcomes = [1] * good + [0] * (attempts - good)
        for k in range(1, attempts + 1):
            subsets = list(itertools.combinations(outcomes, k))
            assert pass_at(good, attempts, k) == pytest.approx(sum(any(one) for one in subsets) / len(subsets))
            assert pass_hat(good, attempts, k) == pytest.approx(sum(all(one) for one in subsets) / len(subsets))


@pytest.mark.req("A-02")
def test_a_published_value() -> None:
    """Chen et al. 2021, the estimator of HumanEval: n = 200, c = 10, k = 10."""
    product = 1.0
    for index in range(191, 201):
        product *= 1 - 10 / index
    assert pass_at(10, 200, 10) == pytest.approx(1 - product)


def test_tasks_with_too_few_attempts_are_left_out_of_larger_k() -> None:
    found = pass_k([(1, 1), (1, 2), (2, 2), (0, 0)])
    assert [(one.k, one.tasks) for one in found] == [(1, 3), (2, 2)]
    assert found[0].any_of == found[0].all_of == pytest.approx((1 + 0.5 + 1) / 3)
    assert (found[1].any_of, found[1].all_of) == (1.0, 0.5)
    assert pass_k([]) == ()
    with pytest.raises(ValueError, match="k = 3"):
        pass_at(1, 2, 3)
