from __future__ import annotations

import pytest

from agentbench.statistics.error_rates import Case, error_rates

pytestmark = pytest.mark.synthetic


def case(flagged: str = "", actual: str = "") -> Case:
    """Return a case; an empty text means passed, or correct."""
    return Case(frozenset(flagged.split()), frozenset(actual.split()))


@pytest.mark.req("A-05")
def test_both_rates_of_a_category_count_the_same_kind_of_attempt() -> None:
    cases = [case("unit", "unit")] * 8
    cases += [case("unit")] * 2
    cases += [case("timeout")]
    cases += [case(actual="invariant")] * 3
    cases += [case("invariant unit", "invariant unit")]
    cases += [case("unit", "invariant")]
    cases += [case()] * 5
    rates = {category.category: category for category in error_rates(cases)}
    assert list(rates) == ["invariant", "timeout", "unit"]
    unit = rates["unit"]
    assert (unit.false_positive.count, unit.false_positive.total, unit.correct_rejected) == (3, 12, 2)
    assert (unit.false_negative.count, unit.false_negative.total) == (0, 9)
    invariant = rates["invariant"]
    assert (invariant.false_positive.count, invariant.false_positive.total) == (0, 1)
    assert (invariant.false_negative.count, invariant.false_negative.total, invariant.defects_passed) == (4, 5, 3)
    assert rates["timeout"].false_negative.interval is None
    for category in rates.values():
        right = category.false_positive.total - category.false_positive.count
        assert right == category.false_negative.total - category.false_negative.count


@pytest.mark.req("A-05")
def test_rates_have_wilson_intervals() -> None:
    (category,) = error_rates([case("unit", "unit")] * 8 + [case("unit")] * 2)
    assert category.false_positive.interval is not None
    assert category.false_positive.interval.low == pytest.approx(0.0567, abs=1e-4)
