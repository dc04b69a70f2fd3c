from __future__ import annotations

import math
import warnings

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentbench.statistics.distributions import normal_quantile
from agentbench.statistics.intervals import clustered_wilson, wilson
from agentbench.statistics.survival import Step, kaplan_meier

pytestmark = pytest.mark.component


@pytest.mark.req("A-06")
def test_kaplan_meier_reproduces_a_published_curve() -> None:
    """Gehan's leukaemia trial, 6-MP arm, as in Cox and Oakes."""
    relapsed = [6, 6, 6, 7, 10, 13, 16, 22, 23]
    censored = [6, 9, 10, 11, 17, 19, 20, 25, 32, 32, 34, 35]
    events = [True] * len(relapsed) + [False] * len(censored)
    curve = kaplan_meier([*relapsed, *censored], events, [False] * len(events))
    steps = [(step.amount, step.at_risk, round(step.survival, 4)) for step in curve.steps]
    assert steps == [
        (6, 21, 0.8571), (7, 17, 0.8067), (10, 15, 0.7529), (13, 12, 0.6902), (16, 11, 0.6275), (22, 7, 0.5378), (23, 6, 0.4482),
    ]  # fmt: skip
    assert curve.median == 23
    assert (curve.attempts, curve.events, curve.censored) == (21, 9, 12)


@pytest.mark.req("A-06")
def test_kaplan_meier_and_its_variance_match_scipy() -> None:
    from scipy import stats  # type: ignore[import-untyped]

    rng = np.random.default_rng(11)
    times, cut = rng.exponential(10, 60).round(1) + 0.1, rng.exponential(15, 60).round(1) + 0.1
    event = times <= cut
    observed = np.minimum(times, cut)
    theirs = stats.ecdf(stats.CensoredData(uncensored=list(observed[event]), right=list(observed[~event]))).sf
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # scipy warns that the ends of the curve have no interval
        interval = theirs.confidence_interval(method="log-log")
    ours = kaplan_meier(observed.tolist(), event.tolist(), [False] * len(event))
    for step in ours.steps:
        index = list(theirs.quantiles).index(step.amount)
        assert step.survival == pytest.approx(float(theirs.probabilities[index]))
        if 0 < step.survival < 1:
            low = float(interval.low.probabilities[index])
            logarithm = math.log(step.survival)
            # The variance of the logarithm of the curve, from the log-log bound.
            greenwood = (math.log(math.log(low) / logarithm) * logarithm / normal_quantile(0.95)) ** 2
            size = (1 - step.survival) / (step.survival * greenwood)
            assert (step.low, step.high) == pytest.approx(wilson(step.survival * size, size))


@pytest.mark.req("A-02", "A-06")
def test_interval_is_not_a_point_where_all_attempts_passed() -> None:
    last = kaplan_meier([1, 2, 3, 4], [True] * 4, [False] * 4).steps[-1]
    assert (last.survival, last.low) == (0, 0)
    assert last.high == pytest.approx(1 - wilson(4, 4)[0])


@pytest.mark.req("A-02", "A-06")
@given(st.lists(st.tuples(st.integers(0, 4), st.integers(0, 4)).filter(any), min_size=1, max_size=12))
def test_interval_without_censoring_is_the_clustered_one_of_a_rate(table: list[tuple[int, int]]) -> None:
    attempts = [(task, n < passes) for task, (passes, fails) in enumerate(table) for n in range(passes + fails)]
    passed = [event for _, event in attempts]
    curve = kaplan_meier(
        [float(n % 5) for n in range(len(attempts))], passed, [not event for event in passed], [t for t, _ in attempts]
    )
    if not curve.steps:
        assert not any(passed)
        return
    interval = clustered_wilson([(passes, passes + fails) for passes, fails in table])
    assert interval is not None
    last = curve.steps[-1]
    assert (1 - last.high, 1 - last.low) == pytest.approx((interval.low, interval.high), abs=1e-9)


@pytest.mark.req("A-02", "A-06")
@given(
    st.lists(
        st.tuples(st.integers(0, 6), st.sampled_from(["passed", "failed", "capped"]), st.integers(0, 5)),
        min_size=1,
        max_size=30,
    )
)
def test_interval_contains_the_curve_and_narrows_with_more_tasks(attempts: list[tuple[int, str, int]]) -> None:
    def steps(copies: int) -> tuple[Step, ...]:
        rows = [(used, kind, (task, copy)) for copy in range(copies) for used, kind, task in attempts]
        return kaplan_meier(
            [used for used, *_ in rows],
            [kind == "passed" for _, kind, _ in rows],
            [kind == "failed" for _, kind, _ in rows],
            [task for *_, task in rows],
        ).steps

    for step, more in zip(steps(1), steps(4), strict=True):
        assert 0 <= step.low <= step.survival + 1e-12
        assert step.survival - 1e-12 <= step.high <= 1
        assert step.low < step.high
        assert more.survival == pytest.approx(step.survival)
        assert more.high - more.low < step.high - step.low


@pytest.mark.req("A-02", "A-06")
def test_repeats_of_a_task_that_end_alike_do_not_narrow_the_interval() -> None:
    used, passed = [1.0, 2, 2, 3, 4, 5, 6, 7], [True, False, True, True, False, True, False, True]
    never = [False, False, False, False, True, False, False, False]
    once = kaplan_meier(used, passed, never).steps
    repeated = kaplan_meier(used * 3, passed * 3, never * 3, [*range(8)] * 3).steps
    for step, more in zip(once, repeated, strict=True):
        assert more.survival == pytest.approx(step.survival)
        assert more.high - more.low > 0.9 * (step.high - step.low)


@pytest.mark.req("A-06")
def test_attempt_that_never_passes_stays_at_risk() -> None:
    """Without censoring, the curve is one minus the share of all attempts that have passed so far."""
    curve = kaplan_meier([1, 1, 3, 9], [True, False, True, False], [False, True, False, True])
    assert [step.survival for step in curve.steps] == [0.75, 0.5]
    assert curve.at(0) == 1.0
    assert curve.at(2) == 0.75
    assert curve.at(100) == 0.5
    empty = kaplan_meier([float("nan"), float("inf")], [True, False], [False, False])
    assert (empty.attempts, empty.steps, empty.median) == (0, (), None)
