from fractions import Fraction

import pytest

from toystats import median
from toystats.requests import answer


def test_even_number_of_values_gives_the_mean_of_the_two_in_the_middle():
    assert median([1, 2, 3, 4]) == 2.5


def test_order_does_not_matter():
    assert median([4, 1, 3, 2]) == 2.5


def test_two_values():
    assert median([1, 10]) == 5.5


def test_negative_values():
    assert median([-8, -2, -4, -6]) == -5


def test_equal_values_in_the_middle():
    assert median([1, 3, 3, 9]) == 3


def test_odd_number_of_values_gives_the_value_itself():
    result = median([9, 1, 5])
    assert result == 5
    assert isinstance(result, int)


def test_fractions_stay_exact():
    assert median([Fraction(1, 3), Fraction(2, 3)]) == Fraction(1, 2)


def test_input_is_left_as_it_was():
    data = [4, 1, 3, 2]
    median(data)
    assert data == [4, 1, 3, 2]


def test_any_iterable_is_taken():
    assert median(iter([1, 2, 3, 4])) == 2.5


def test_no_values_are_still_refused():
    with pytest.raises(ValueError, match="median of no values"):
        median([])


def test_request():
    assert answer("median 1 2 3 4") == "2.5"
