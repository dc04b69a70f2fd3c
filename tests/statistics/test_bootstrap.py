from __future__ import annotations

import itertools
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentbench.statistics import bootstrap
from agentbench.statistics.bootstrap import bootstrap_interval, resampled_ratios
from agentbench.statistics.paired import Method, compare, pair, sign_flip
from agentbench.statistics.trials import Rate
from tests.statistics.trials import side, trial

pytestmark = pytest.mark.component


@pytest.mark.req("A-02")
def test_resamples_match_the_enumerated_distribution() -> None:
    values = [-1.0, 0.0, 0.0, 1.0]
    every = [sum(draw) / 4 for draw in itertools.product(values, repeat=4)]
    drawn = resampled_ratios(values, [1.0] * 4, resamples=200_000)
    for point in sorted(set(every)):
        exact = every.count(point) / len(every)
        assert abs(float((drawn == point).mean()) - exact) < 0.005


@pytest.mark.req("A-02")
def test_clusters_of_different_size_are_drawn_whole() -> None:
    """Three repositories with 1, 2 and 5 tasks have 27 possible resamples."""
    top, bottom = [1.0, 0.0, 2.0], [1.0, 2.0, 5.0]
    every = [
        sum(top[index] for index in draw) / sum(bottom[index] for index in draw)
        for draw in itertools.product(range(3), repeat=3)
    ]
    drawn = resampled_ratios(top, bottom, resamples=100_000)
    assert float(drawn.mean()) == pytest.approx(sum(every) / 27, abs=0.004)
    assert float(drawn.std()) == pytest.approx(float(np.std(every)), abs=0.004)


@pytest.mark.req("A-02")
def test_both_sampling_methods_agree(monkeypatch: pytest.MonkeyPatch) -> None:
    values = list(np.random.default_rng(1).integers(-5, 6, size=60) / 5)
    multinomial = bootstrap_interval(values)
    monkeypatch.setattr(bootstrap, "MAX_DISTINCT", 0)
    monkeypatch.setattr(bootstrap, "_BLOCK_ELEMENTS", 7_000)
    by_index = bootstrap_interval(values)
    assert multinomial is not None
    assert by_index is not None
    assert multinomial.low == pytest.approx(by_index.low, abs=0.015)
    assert multinomial.high == pytest.approx(by_index.high, abs=0.015)


@pytest.mark.req("A-02")
def test_interval_matches_scipy() -> None:
    from scipy import stats  # type: ignore[import-untyped]

    values = np.random.default_rng(7).choice([-1.0, 0.0, 0.0, 0.5, 1.0], size=80)
    theirs = stats.bootstrap((values,), np.mean, n_resamples=10_000, method="percentile", rng=3).confidence_interval
    ours = bootstrap_interval(list(values))
    assert ours is not None
    assert (ours.low, ours.high) == pytest.approx((theirs.low, theirs.high), abs=0.01)


def test_interval_is_deterministic_and_none_without_variance() -> None:
    assert bootstrap_interval([0.0, 1.0, 0.5]) == bootstrap_interval([0.0, 1.0, 0.5])
    assert bootstrap_interval([0.5] * 20) is None
    assert bootstrap_interval([1.0]) is None
    with pytest.raises(ValueError, match="denominator"):
        resampled_ratios([1.0], [0.0])


@pytest.mark.req("A-02")
def test_bootstrap_interval_can_decide() -> None:
    better = compare(
        pair(side("-" * 12 + "+" * 8), side("+" * 20), Rate.CONTRACT), Rate.CONTRACT, method=Method.BOOTSTRAP
    )
    assert better is not None
    assert better.better == "B"
    same = compare(pair(side("+-" * 10), side("-+" * 10), Rate.CONTRACT), Rate.CONTRACT, method=Method.BOOTSTRAP)
    assert same is not None
    assert same.better is None


@pytest.mark.req("A-02")
def test_clustering_by_repository_widens_the_interval() -> None:
    """Ten repositories of ten tasks, all tasks of a repository with the same outcome."""
    a = [trial(f"t{number:03}", "fail") for number in range(100)]
    b = [trial(f"t{number:03}", "pass" if number // 10 % 2 else "fail") for number in range(100)]
    repositories = {f"t{number:03}": f"repo{number // 10}" for number in range(100)}
    comparison = compare(pair(a, b, Rate.CONTRACT), Rate.CONTRACT, repositories=repositories)
    assert comparison is not None
    assert comparison.bootstrap is not None
    assert comparison.by_repository is not None
    wide, narrow = (interval.high - interval.low for interval in (comparison.by_repository, comparison.bootstrap))
    assert wide > 2.5 * narrow
    assert "repository" in comparison.by_repository.method


@pytest.mark.req("A-02")
def test_two_repositories_are_too_few_to_cluster_by() -> None:
    """Both repositories have the same difference, so resampling them would give a narrow interval by chance."""
    a = [trial(f"t{number:02}", "fail") for number in range(20)]
    b = [trial(f"t{number:02}", "pass" if number % 10 < 4 + number // 10 else "fail") for number in range(20)]
    repositories = {f"t{number:02}": f"repo{number // 10}" for number in range(20)}
    comparison = compare(pair(a, b, Rate.CONTRACT), Rate.CONTRACT, repositories=repositories)
    assert comparison is not None
    assert comparison.by_repository is None
    assert any(note.startswith("The tasks come from 2 repositories") for note in comparison.notes)
    alone = compare(pair(a, b, Rate.CONTRACT), Rate.CONTRACT, repositories=dict.fromkeys(repositories, "repo"))
    assert alone is not None
    assert not any("repositor" in note for note in alone.notes)


@pytest.mark.req("A-02")
@given(st.lists(st.integers(-5, 5), min_size=1, max_size=30))
def test_sign_flip_in_floating_point_matches_integers(values: list[int]) -> None:
    differences = [Fraction(value, 5) for value in values]
    in_integers = sign_flip(differences)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("agentbench.statistics.paired.MAX_INTEGER_WORK", 0)
        in_floats = sign_flip(differences)
    assert in_floats.p_value == pytest.approx(in_integers.p_value, abs=1e-12)
