from decimal import Decimal
from fractions import Fraction

from more_itertools import numeric_range


def test_stop_before_start():
    assert list(reversed(numeric_range(5, 1))) == []


def test_nothing_between_equal_ends():
    assert list(reversed(numeric_range(0))) == []
    assert list(reversed(numeric_range(2.5, 2.5))) == []


def test_negative_step_that_leads_away():
    assert list(reversed(numeric_range(1, 5, -1))) == []


def test_other_numbers():
    assert list(reversed(numeric_range(Decimal("2"), Decimal("1"), Decimal("0.5")))) == []
    assert list(reversed(numeric_range(Fraction(1, 2), Fraction(1, 3), Fraction(1, 6)))) == []


def test_the_result_is_an_iterator():
    assert next(reversed(numeric_range(3, 3)), "nothing") == "nothing"


def test_full_ranges_still_reverse():
    assert list(reversed(numeric_range(0, 5))) == [4, 3, 2, 1, 0]
    assert list(reversed(numeric_range(1.0, 2.0, 0.25))) == [1.75, 1.5, 1.25, 1.0]
    assert list(reversed(numeric_range(5, 0, -2))) == [1, 3, 5]


def test_one_value_still_reverses():
    assert list(reversed(numeric_range(7, 8))) == [7]
