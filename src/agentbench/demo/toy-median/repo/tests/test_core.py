import pytest

from toystats import EmptyData, mean, median, mode, quantile, spread


def test_mean():
    assert mean([1, 2, 3, 6]) == 3.0


def test_median_of_an_odd_number_of_values():
    assert median([5, 1, 3]) == 3


def test_median_of_one_value():
    assert median([7]) == 7


def test_mode_prefers_the_first_of_several():
    assert mode([3, 1, 1, 3]) == 3


def test_spread():
    assert spread([4, -2, 9]) == 11


@pytest.mark.parametrize("fraction, expected", [(0, 1), (0.25, 2), (0.5, 3), (1, 5)])
def test_quantile(fraction, expected):
    assert quantile([1, 2, 3, 4, 5], fraction) == expected


def test_quantile_outside_of_0_and_1_is_refused():
    with pytest.raises(ValueError, match="between 0 and 1"):
        quantile([1, 2], 1.5)


@pytest.mark.parametrize("statistic", [mean, median, mode, spread])
def test_no_values_are_refused(statistic):
    with pytest.raises(EmptyData):
        statistic([])
