from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentbench.statistics.distributions import normal_quantile, t_quantile
from agentbench.statistics.intervals import clustered_wilson, mean_interval, newcombe_paired, task_mean_wilson, wilson

pytestmark = pytest.mark.component

counts = st.integers(0, 60)


@pytest.mark.req("A-02")
@pytest.mark.parametrize(
    "successes,total,low,high",
    [(81, 263, 0.2553, 0.3662), (15, 148, 0.0624, 0.1605), (0, 20, 0.0, 0.1611), (1, 29, 0.0061, 0.1718)],
)
def test_wilson_reproduces_published_examples(successes: int, total: int, low: float, high: float) -> None:
    """Table I of Newcombe 1998, Statistics in Medicine 17, 857."""
    assert wilson(successes, total) == pytest.approx((low, high), abs=5e-5)


@pytest.mark.req("A-02")
@pytest.mark.parametrize(
    "table,low,high",
    [((59, 16, 6, 80), -0.1186, -0.0046), ((1, 7, 1, 12), -0.507, -0.026)],
    ids=["complete response before and after therapy", "airway responsiveness before and after transplantation"],
)
def test_newcombe_reproduces_published_examples(table: tuple[int, int, int, int], low: float, high: float) -> None:
    """Worked examples in Fagerland, Lydersen and Laake: Statistical Analysis of Contingency Tables, chapter 8."""
    interval = newcombe_paired(*table)
    assert interval is not None
    digits = 5 * 10 ** -(len(str(high).split(".")[1]) + 1)
    assert (interval.low, interval.high) == pytest.approx((low, high), abs=digits)


@pytest.mark.req("A-02")
@given(counts, counts, counts, counts)
def test_newcombe_contains_the_difference_and_is_antisymmetric(a: int, b: int, c: int, d: int) -> None:
    interval, swapped = newcombe_paired(a, b, c, d), newcombe_paired(a, c, b, d)
    if not a + b + c + d:
        assert interval is None
        return
    assert interval is not None
    assert swapped is not None
    difference = (c - b) / (a + b + c + d)
    assert -1 <= interval.low <= difference + 1e-12
    assert difference - 1e-12 <= interval.high <= 1
    assert (swapped.low, swapped.high) == pytest.approx((-interval.high, -interval.low))


@given(st.integers(1, 500), st.data())
def test_wilson_contains_the_share_and_narrows_with_more_trials(total: int, data: st.DataObject) -> None:
    successes = data.draw(st.integers(0, total))
    low, high = wilson(successes, total)
    assert 0 <= low <= successes / total <= high <= 1
    narrower = wilson(successes * 4, total * 4)
    assert narrower[1] - narrower[0] < high - low


@pytest.mark.parametrize("successes,total", [(0, 0), (3, 2), (-1, 4)])
def test_wilson_rejects_invalid_proportions(successes: int, total: int) -> None:
    with pytest.raises(ValueError, match="invalid proportion"):
        wilson(successes, total)


@pytest.mark.parametrize(
    "freedom,t95,t99",
    [
        (1, 12.706, 63.657),
        (2, 4.303, 9.925),
        (4, 2.776, 4.604),
        (9, 2.262, 3.250),
        (30, 2.042, 2.750),
        (120, 1.980, 2.617),
    ],
)
def test_t_quantile_matches_the_printed_table(freedom: int, t95: float, t99: float) -> None:
    assert t_quantile(0.95, freedom) == pytest.approx(t95, abs=5e-4)
    assert t_quantile(0.99, freedom) == pytest.approx(t99, abs=5e-4)


def test_t_quantile_converges_to_the_normal() -> None:
    assert t_quantile(0.95, 10**6) == pytest.approx(normal_quantile(0.95), abs=1e-5)
    assert normal_quantile(0.95) == pytest.approx(1.959964, abs=1e-6)
    with pytest.raises(ValueError, match="freedom"):
        t_quantile(0.95, 0)


@pytest.mark.req("A-02")
def test_repeats_do_not_count_as_additional_tasks() -> None:
    once = clustered_wilson([(1, 1), (0, 1), (1, 1), (0, 1)] * 5)
    repeated = clustered_wilson([(4, 4), (0, 4), (4, 4), (0, 4)] * 5)
    independent = clustered_wilson([(2, 4)] * 10 + [(1, 4)] * 5 + [(3, 4)] * 5)
    assert once is not None
    assert repeated is not None
    assert independent is not None
    width = once.high - once.low
    # Four equal repeats do not narrow the interval; it is slightly wider because the variance is estimated from twenty
    # tasks.
    assert width <= repeated.high - repeated.low <= 1.08 * width
    assert independent.high - independent.low < width
    assert (once.method, repeated.method) == ("Wilson", "Wilson, clustered by task")


@pytest.mark.req("A-02")
@pytest.mark.parametrize("tasks", [5, 20])
def test_clustered_interval_has_nominal_coverage_with_few_tasks(tasks: int) -> None:
    rng = np.random.default_rng(7)
    rate, repeats, covered = 0.4, 6, 0
    for chances in rng.beta(rate, 1 - rate, size=(600, tasks)):  # correlation 1/2 within tasks
        interval = clustered_wilson([(int(passed), repeats) for passed in rng.binomial(repeats, chances)])
        covered += interval is not None and interval.low <= rate <= interval.high
    assert covered / 600 == pytest.approx(0.95, abs=0.025)


@pytest.mark.req("A-02")
def test_number_of_tasks_is_the_sample_size_without_variance() -> None:
    all_pass = clustered_wilson([(3, 3)] * 5)
    assert all_pass is not None
    assert (all_pass.low, all_pass.high) == wilson(5, 5)
    assert clustered_wilson([]) is None
    assert clustered_wilson([(0, 0)]) is None


def test_mean_interval_needs_variance() -> None:
    assert mean_interval([0.5]) is None
    assert mean_interval([0.0, 0.0, 0.0]) is None
    interval = mean_interval([0.1, 0.2, 0.3])
    assert interval is not None
    assert (interval.low, interval.high) == pytest.approx((0.2 - 4.3027 * 0.1 / 3**0.5, 0.4484), abs=1e-4)


@given(st.lists(st.integers(0, 3), min_size=1, max_size=20))
def test_task_mean_interval_of_equal_repeats_is_the_clustered_one(passed: list[int]) -> None:
    clusters = [(count, 3) for count in passed]
    assert task_mean_wilson(clusters) == clustered_wilson(clusters)


@given(st.lists(st.integers(1, 5).flatmap(lambda total: st.tuples(st.integers(0, total), st.just(total))), min_size=1))
def test_task_mean_interval_contains_the_mean_of_task_rates(clusters: list[tuple[int, int]]) -> None:
    interval = task_mean_wilson(clusters)
    assert interval is not None
    mean = sum(passed / total for passed, total in clusters) / len(clusters)
    assert interval.low - 1e-9 <= mean <= interval.high + 1e-9


def test_task_mean_interval_gives_each_task_the_same_weight() -> None:
    repeated = task_mean_wilson([(10, 10), (1, 1), (0, 1), (0, 1)])
    assert repeated is not None
    assert (repeated.low + repeated.high) / 2 == pytest.approx(0.5)
