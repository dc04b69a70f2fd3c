from __future__ import annotations

import pytest

from agentbench.reports.number_format import point_interval, points, points_limit, probability
from agentbench.statistics.intervals import Interval

pytestmark = pytest.mark.component


def interval(low: float, high: float) -> Interval:
    return Interval(low, high, 0.95, "test")


@pytest.mark.parametrize(
    "low, high, text",
    [
        (0.03, 0.882, "95% CI +3.0 to +88.2"),
        (0.0004, 0.5, "95% CI +0.04 to +50.0"),
        (-0.5, -0.00000312, "95% CI -50.0 to -0.0003"),
        (0.0, 0.5, "95% CI +0.0 to +50.0"),
    ],
)
def test_interval_shows_on_which_side_of_zero_it_ends(low: float, high: float, text: str) -> None:
    assert point_interval(interval(low, high)) == text


def test_interval_shows_on_which_side_of_the_margin_it_ends() -> None:
    assert point_interval(interval(-0.0999, 0.0999), -0.1, 0.1) == "95% CI -9.99 to +9.99"
    assert point_interval(interval(-0.1001, 0.1), -0.1, 0.1) == "95% CI -10.01 to +10.0"


def test_difference_shows_on_which_side_of_its_limit_it_is() -> None:
    assert points(-0.0504, -0.05) == "-5.04 points"
    assert points(-1 / 3) == "-33.3 points"
    assert (points_limit(0.05), points_limit(0.0125), points_limit(-0.1)) == ("5.0", "1.25", "-10.0")


@pytest.mark.parametrize(
    "p, text", [(0.04998, "0.05"), (0.05, "0.05"), (0.050001, "0.050001"), (0.125, "0.125"), (None, "")]
)
def test_p_value_shows_on_which_side_of_the_level_it_is(p: float | None, text: str) -> None:
    assert probability(p) == text
