"""Outcomes nobody could decide, success under caps, non-inferiority, and verdicts held against the truth."""

from __future__ import annotations

import itertools
import warnings

import numpy as np
import pytest
from scipy import stats  # type: ignore[import-untyped]

from agentbench.statistics.error_rates import Case, error_rates
from agentbench.statistics.intervals import Interval, newcombe_paired
from agentbench.statistics.noninferiority import Standing, non_inferior
from agentbench.statistics.survival import Span, kaplan_meier
from agentbench.statistics.undecided_bounds import bounds, difference_bounds
from tests.statistics.trials import trial


@pytest.mark.req("A-06", "G-14")
def test_bounds_take_the_undecided_as_failed_and_as_passed() -> None:
    kinds = ["pass", "fail", "error", "harness", "task", "operator", "safety", "policy"]
    found = bounds([trial(kind, kind) for kind in kinds])
    assert (found.passed, found.undecided, found.attempts) == (1, 4, 8)
    assert (found.worst, found.best, found.undecided_share) == (1 / 8, 5 / 8, 4 / 8)
    assert bounds([]).worst is None


@pytest.mark.req("A-06")
def test_bounds_of_a_difference_are_what_trying_every_outcome_gives() -> None:
    a = [trial("x", "pass"), trial("y", "error"), trial("z", "harness", 1), trial("z", "fail", 2)]
    b = [trial("x", "task"), trial("y", "pass"), trial("z", "fail", 1), trial("z", "error", 2)]
    tried = []
    for p, q, r, s in itertools.product((0, 1), repeat=4):
        left, right = [1, p, (q + 0) / 2], [r, 1, (0 + s) / 2]
        tried.append(sum(y - x for x, y in zip(left, right, strict=True)) / 3)
    assert difference_bounds(a, b) == pytest.approx((min(tried), max(tried)))
    assert difference_bounds(a, [trial("other", "pass")]) is None


@pytest.mark.req("A-06")
def test_kaplan_meier_gives_the_published_curve() -> None:
    """Gehan's leukaemia trial, 6-MP arm: the worked example of Cox and Oakes, and of most books since."""
    relapsed = [6, 6, 6, 7, 10, 13, 16, 22, 23]
    censored = [6, 9, 10, 11, 17, 19, 20, 25, 32, 32, 34, 35]
    curve = kaplan_meier([Span(t, event=True) for t in relapsed] + [Span(t, event=False) for t in censored])
    shown = [(step.amount, step.at_risk, round(step.survival, 4)) for step in curve.steps]
    assert shown == [
        (6, 21, 0.8571), (7, 17, 0.8067), (10, 15, 0.7529), (13, 12, 0.6902), (16, 11, 0.6275), (22, 7, 0.5378), (23, 6, 0.4482),
    ]  # fmt: skip
    assert curve.median == 23
    assert (curve.attempts, curve.events, curve.censored) == (21, 9, 12)


@pytest.mark.req("A-06")
def test_kaplan_meier_is_that_of_scipy_with_its_interval() -> None:
    rng = np.random.default_rng(11)
    times, cut = rng.exponential(10, 60).round(1) + 0.1, rng.exponential(15, 60).round(1) + 0.1
    event = times <= cut
    seen = np.minimum(times, cut)
    theirs = stats.ecdf(stats.CensoredData(uncensored=list(seen[event]), right=list(seen[~event]))).sf
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # scipy says that ends of the curve have no interval
        bounds_ = theirs.confidence_interval(method="log-log")
    ours = kaplan_meier([Span(float(t), event=bool(e)) for t, e in zip(seen, event, strict=True)])
    for step in ours.steps:
        at = list(theirs.quantiles).index(step.amount)
        assert step.survival == pytest.approx(float(theirs.probabilities[at]))
        if 0 < step.survival < 1:
            low, high = float(bounds_.low.probabilities[at]), float(bounds_.high.probabilities[at])
            assert (step.low, step.high) == pytest.approx((low, high))


@pytest.mark.req("A-06")
def test_an_attempt_that_gave_up_stays_in_the_risk_set() -> None:
    """Without censoring the curve is one minus the share of successes so far, over everybody."""
    curve = kaplan_meier(
        [Span(1, event=True), Span(1, event=False, never=True), Span(3, event=True), Span(9, event=False, never=True)]
    )
    assert [step.survival for step in curve.steps] == [0.75, 0.5]
    assert curve.at(0) == 1.0
    assert curve.at(2) == 0.75
    assert curve.at(100) == 0.5
    empty = kaplan_meier([Span(float("nan"), event=True), Span(float("inf"), event=False)])
    assert (empty.attempts, empty.steps, empty.median) == (0, (), None)


@pytest.mark.req("A-03")
def test_non_inferiority_is_the_one_sided_test() -> None:
    interval = newcombe_paired(40, 5, 4, 11, confidence=0.9)
    assert interval is not None
    assert non_inferior(interval, 0.15, 0.05).standing is Standing.HOLDS
    assert non_inferior(interval, 0.02, 0.05).standing is Standing.UNDECIDED
    assert non_inferior(Interval(-0.4, -0.2, 0.9, "x"), 0.1, 0.05).standing is Standing.FAILS
    assert non_inferior(None, 0.1, 0.05).standing is Standing.UNDECIDED
    with pytest.raises(ValueError, match=r"needs an interval at 0\.9"):
        non_inferior(Interval(-0.1, 0.1, 0.95, "x"), 0.1, 0.05)


@pytest.mark.req("A-05")
def test_error_rates_are_given_per_category() -> None:
    cases = [Case("TESTS_FAILED", passed=False, correct=False)] * 8
    cases += [Case("TESTS_FAILED", passed=False, correct=True)] * 2
    cases += [Case("TIMEOUT", passed=False, correct=True)]
    cases += [Case("invariant_violation", passed=True, correct=False)] * 3
    cases += [Case("invariant_violation", passed=False, correct=False)]
    cases += [Case("", passed=True, correct=True)] * 5
    found = {one.category: one for one in error_rates(cases)}
    assert list(found) == ["TESTS_FAILED", "TIMEOUT", "invariant_violation"]
    tests = found["TESTS_FAILED"]
    assert (tests.false_positive.count, tests.false_positive.total) == (2, 10)
    assert (tests.false_negative.count, tests.false_negative.total) == (0, 8)
    assert tests.false_positive.interval is not None
    assert tests.false_positive.interval.low == pytest.approx(0.0567, abs=1e-4)
    escaped = found["invariant_violation"]
    assert (escaped.false_negative.count, escaped.false_negative.total) == (3, 4)
    assert found["TIMEOUT"].false_negative.interval is None
