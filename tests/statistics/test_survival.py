from __future__ import annotations

import warnings

import numpy as np
import pytest

from agentbench.statistics.survival import kaplan_meier

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
def test_kaplan_meier_and_its_interval_match_scipy() -> None:
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
            low, high = float(interval.low.probabilities[index]), float(interval.high.probabilities[index])
            assert (step.low, step.high) == pytest.approx((low, high))


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
