from __future__ import annotations

import pytest

from agentbench.statistics.error_rates import Case, error_rates

pytestmark = pytest.mark.synthetic


@pytest.mark.req("A-05")
def test_error_rates_are_per_category() -> None:
    cases = [Case("TESTS_FAILED", passed=False, correct=False)] * 8
    cases += [Case("TESTS_FAILED", passed=False, correct=True)] * 2
    cases += [Case("TIMEOUT", passed=False, correct=True)]
    cases += [Case("invariant_violation", passed=True, correct=False)] * 3
    cases += [Case("invariant_violation", passed=False, correct=False)]
    cases += [Case("", passed=True, correct=True)] * 5
    rates = {category.category: category for category in error_rates(cases)}
    assert list(rates) == ["TESTS_FAILED", "TIMEOUT", "invariant_violation"]
    tests = rates["TESTS_FAILED"]
    assert (tests.false_positive.count, tests.false_positive.total) == (2, 10)
    assert (tests.false_negative.count, tests.false_negative.total) == (0, 8)
    assert tests.false_positive.interval is not None
    assert tests.false_positive.interval.low == pytest.approx(0.0567, abs=1e-4)
    escaped = rates["invariant_violation"]
    assert (escaped.false_negative.count, escaped.false_negative.total) == (3, 4)
    assert rates["TIMEOUT"].false_negative.interval is None
