from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats  # type: ignore[import-untyped]

from agentbench.statistics.paired import compare, mcnemar_mid_p, pair
from agentbench.statistics.power import (
    Design,
    detectable_mean,
    detectable_single,
    sanity,
    simulate_power,
)
from agentbench.statistics.trials import Rate
from tests.statistics.trials import side

pytestmark = pytest.mark.component


def exact_power(effect: float, psi: float, tasks: int) -> float:
    """Return the power of the mid-p test, summed over all tables, when a share `psi` of tasks is discordant."""
    only_b, only_a = (psi + effect) / 2, (psi - effect) / 2
    power = 0.0
    for b in range(tasks + 1):
        for c in range(tasks + 1 - b):
            if mcnemar_mid_p(b, c) <= 0.05:
                power += float(stats.multinomial.pmf([b, c, tasks - b - c], tasks, [only_a, only_b, 1 - psi]))
    return power


@pytest.mark.req("A-04")
@pytest.mark.parametrize("only_a,only_b,tasks", [(4, 8, 40), (10, 10, 60)])
def test_minimum_detectable_effect_has_nominal_power(only_a: int, only_b: int, tasks: int) -> None:
    detectable = detectable_single(only_a, only_b, tasks)
    assert detectable.effect is not None
    psi = (only_a + only_b + 1) / (tasks + 2)
    assert exact_power(detectable.effect, psi, tasks) == pytest.approx(0.8, abs=0.05)


@pytest.mark.req("A-04")
def test_effect_with_repeats_matches_simulated_t_test() -> None:
    rng = np.random.default_rng(5)
    pilot = rng.normal(0, 0.3, size=30)
    detectable = detectable_mean(list(pilot))
    assert detectable.effect is not None
    deviation = float(np.std(pilot, ddof=1))
    samples = rng.normal(detectable.effect, deviation, size=(20_000, 30))
    significant = float((stats.ttest_1samp(samples, 0, axis=1).pvalue < 0.05).mean())
    assert significant == pytest.approx(0.8, abs=0.03)


@pytest.mark.req("A-04")
def test_more_tasks_detect_smaller_effects() -> None:
    effects = [detectable_single(n // 10, n // 10, n).effect for n in (50, 100, 400)]
    assert all(effect is not None for effect in effects)
    assert effects == sorted(effects, key=lambda effect: -(effect or 0))
    assert detectable_single(1, 1, 4).effect is None
    assert detectable_single(0, 0, 0).effect is None
    assert detectable_mean([0.5]).effect is None
    assert detectable_mean([0.5, 0.5]).effect is None
    assert not detectable_single(1, 1, 4).reaches(1.0)


@pytest.mark.req("A-04")
def test_comparison_has_a_minimum_detectable_effect() -> None:
    comparison = compare(pair(side("+-" * 20), side("++" * 20), Rate.CONTRACT), Rate.CONTRACT)
    assert comparison is not None
    assert comparison.detectable is not None
    assert comparison.detectable.reaches(comparison.difference)


@pytest.mark.req("A-04")
def test_uncorrelated_power_matches_the_noncentral_t() -> None:
    """With many independent repeats, per-task differences are nearly normal."""
    design = Design(tasks=30, repeats=20, rate_a=0.5, rate_b=0.56, correlation=0.0)
    deviation = math.sqrt((0.5 * 0.5 + 0.56 * 0.44) / 20)
    centre = 0.06 / (deviation / math.sqrt(30))
    critical = float(stats.t.ppf(0.975, 29))
    theory = 1 - float(stats.nct.cdf(critical, 29, centre)) + float(stats.nct.cdf(-critical, 29, centre))
    assert simulate_power(design, simulations=20_000).power == pytest.approx(theory, abs=0.02)


@pytest.mark.req("A-04")
def test_level_holds_and_full_correlation_makes_repeats_useless() -> None:
    null = simulate_power(Design(60, 3, 0.5, 0.5, 0.3), simulations=20_000)
    assert null.power <= 0.06
    single, many = (simulate_power(Design(40, k, 0.4, 0.6, 1.0)).power for k in (1, 10))
    assert single == pytest.approx(many, abs=0.03)
    assert simulate_power(Design(40, 10, 0.4, 0.6, 0.0)).power > 0.99


@pytest.mark.req("A-04")
def test_repeats_have_the_requested_correlation() -> None:
    """The variance of a per-task mean is p(1-p)(ρ + (1-ρ)/K)."""
    design = Design(tasks=25, repeats=4, rate_a=0.0, rate_b=0.1, correlation=0.5)
    rng = np.random.default_rng(2)
    deterministic = rng.random((200_000,)) < 0.5
    means = np.where(deterministic, rng.random(200_000) < 0.1, rng.binomial(4, 0.1, 200_000) / 4)
    assert float(means.var()) == pytest.approx(0.09 * (0.5 + 0.5 / 4), rel=0.02)
    assert 0 < simulate_power(design).power < 1


@pytest.mark.req("A-04")
def test_sanity_check_passes_and_bad_designs_are_rejected() -> None:
    assert sanity(Design(20, 2, 0.4, 0.55, 0.3), simulations=1000) == ()
    for bad in ((1, 1, 0.5, 0.5, 0.0), (5, 0, 0.5, 0.5, 0.0), (5, 1, 1.5, 0.5, 0.0), (5, 1, 0.5, 0.5, float("nan"))):
        with pytest.raises(ValueError, match=r"."):
            Design(*bad)
