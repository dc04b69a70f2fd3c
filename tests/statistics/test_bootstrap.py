from __future__ import annotations

import itertools
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats  # type: ignore[import-untyped]

from agentbench.statistics import bootstrap
from agentbench.statistics.bootstrap import bootstrap_interval, resampled_ratios
from agentbench.statistics.paired import Method, compare, pair, sign_flip
from agentbench.statistics.trials import Rate
from tests.statistics.trials import side, trial


@pytest.mark.req("A-02")
def test_resamples_have_the_distribution_that_counting_every_resample_gives() -> None:
    values = [-1.0, 0.0, 0.0, 1.0]
    every = [sum(draw) / 4 for draw in itertools.product(values, repeat=4)]
    drawn = resampled_ratios(values, [1.0] * 4, resamples=200_000)
    for point in sorted(set(every)):
        exact = sum(one == point for one in every) / len(every)
        assert abs(float((drawn == point).mean()) - exact) < 0.005


@pytest.mark.req("A-02")
def test_clusters_of_different_size_are_drawn_whole() -> None:
    """Three repositories with 1, 2 and 5 tasks: all 27 resamples, as ratios."""
    top, bottom = [1.0, 0.0, 2.0], [1.0, 2.0, 5.0]
    every = [
        sum(top[one] for one in draw) / sum(bottom[one] for one in draw)
        for draw in itertools.product(range(3), repeat=3)
    ]
    drawn = resampled_ratios(top, bottom, resamples=100_000)
    assert float(drawn.mean()) == pytest.approx(sum(every) / 27, abs=0.004)
    assert float(drawn.std()) == pytest.approx(float(np.std(every)), abs=0.004)


@pytest.mark.req("A-02")
def test_both_ways_of_drawing_agree(monkeypatch: pytest.MonkeyPatch) -> None:
    values = list(np.random.default_rng(1).integers(-5, 6, size=60) / 5)
    quick = bootstrap_interval(values)
    monkeypatch.setattr(bootstrap, "MOST_KINDS", 0)
    monkeypatch.setattr(bootstrap, "_BLOCK", 7_000)
    plain = bootstrap_interval(values)
    assert quick is not None
    assert plain is not None
    assert quick.low == pytest.approx(plain.low, abs=0.015)
    assert quick.high == pytest.approx(plain.high, abs=0.015)


@pytest.mark.req("A-02")
def test_the_interval_is_that_of_scipy() -> None:
    values = np.random.default_rng(7).choice([-1.0, 0.0, 0.0, 0.5, 1.0], size=80)
    theirs = stats.bootstrap((values,), np.mean, n_resamples=10_000, method="percentile", rng=3).confidence_interval
    ours = bootstrap_interval(list(values))
    assert ours is not None
    assert (ours.low, ours.high) == pytest.approx((theirs.low, theirs.high), abs=0.01)


def test_the_same_records_give_the_same_interval_and_no_spread_gives_none() -> None:
    assert bootstrap_interval([0.0, 1.0, 0.5]) == bootstrap_interval([0.0, 1.0, 0.5])
    assert bootstrap_interval([0.5] * 20) is None
    assert bootstrap_interval([1.0]) is None
    with pytest.raises(ValueError, match="denominator"):
        resampled_ratios([1.0], [0.0])


@pytest.mark.req("A-02")
def test_the_bootstrap_can_decide() -> None:
    found = compare(
        pair(side("-" * 12 + "+" * 8), side("+" * 20), Rate.CONTRACT), Rate.CONTRACT, method=Method.BOOTSTRAP
    )
    assert found is not None
    assert found.better == "B"
    same = compare(pair(side("+-" * 10), side("-+" * 10), Rate.CONTRACT), Rate.CONTRACT, method=Method.BOOTSTRAP)
    assert same is not None
    assert same.better is None


@pytest.mark.req("A-02")
def test_tasks_of_one_repository_are_not_independent() -> None:
    """Ten repositories with ten tasks each that all go alike: clustered by repository the interval is far wider."""
    a = [trial(f"t{number:03}", "fail") for number in range(100)]
    b = [trial(f"t{number:03}", "pass" if number // 10 % 2 else "fail") for number in range(100)]
    homes = {f"t{number:03}": f"repo{number // 10}" for number in range(100)}
    found = compare(pair(a, b, Rate.CONTRACT), Rate.CONTRACT, repositories=homes)
    assert found is not None
    assert found.bootstrap is not None
    assert found.by_repository is not None
    wide, narrow = (one.high - one.low for one in (found.by_repository, found.bootstrap))
    assert wide > 2.5 * narrow
    assert "repository" in found.by_repository.method


@pytest.mark.req("A-02")
@given(st.lists(st.integers(-5, 5), min_size=1, max_size=30))
def test_counting_signs_in_floating_point_is_counting_them(values: list[int]) -> None:
    differences = [Fraction(one, 5) for one in values]
    whole = sign_flip(differences)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("agentbench.statistics.paired.FEW_SUMS", 0)
        shares = sign_flip(differences)
    assert shares.p_value == pytest.approx(whole.p_value, abs=1e-12)
