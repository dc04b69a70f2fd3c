from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest

from agentbench.statistics.paired import compare, mcnemar_mid_p, pair, sign_flip
from agentbench.statistics.power import (
    Design,
    detectable_mean,
    detectable_single,
    sanity,
    simulate_power,
)
from agentbench.statistics.simulated_tests import mid_p_significant, sign_flip_significant
from agentbench.statistics.trials import Rate
from tests.statistics.trials import side

pytestmark = pytest.mark.component


def exact_power(effect: float, psi: float, tasks: int) -> float:
    """Return the power of the mid-p test, summed over all tables, when a share `psi` of tasks is discordant."""
    from scipy import stats  # type: ignore[import-untyped]

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
    from scipy import stats

    rng = np.random.default_rng(5)
    pilot = rng.normal(0, 0.3, size=30)
    detectable = detectable_mean(list(pilot))
    assert detectable.effect is not None
    deviation = float(np.std(pilot, ddof=1))
    samples = rng.normal(detectable.effect, deviation, size=(20_000, 30))
    significant = float((stats.ttest_1samp(samples, 0, axis=1).pvalue < 0.05).mean())
    assert significant == pytest.approx(0.8, abs=0.03)


@pytest.mark.parametrize("power", [0.2, 0.5, 0.95])
def test_effects_of_other_powers_match_exact_and_simulated_power(power: float) -> None:
    from scipy import stats

    single = detectable_single(10, 10, 60, power=power).effect
    assert single is not None
    assert exact_power(single, 21 / 62, 60) == pytest.approx(power, abs=0.06)
    rng = np.random.default_rng(5)
    differences = rng.normal(0, 0.3, size=30)
    mean = detectable_mean(list(differences), power=power).effect
    assert mean is not None
    samples = rng.normal(mean, float(np.std(differences, ddof=1)), size=(20_000, 30))
    assert float((stats.ttest_1samp(samples, 0, axis=1).pvalue < 0.05).mean()) == pytest.approx(power, abs=0.03)


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
    """With many independent repeats, per-task differences are nearly normal; the sign-flip test is a little weaker."""
    from scipy import stats

    design = Design(tasks=30, repeats=20, rate_a=0.5, rate_b=0.56, correlation=0.0)
    deviation = math.sqrt((0.5 * 0.5 + 0.56 * 0.44) / 20)
    centre = 0.06 / (deviation / math.sqrt(30))
    critical = float(stats.t.ppf(0.975, 29))
    theory = 1 - float(stats.nct.cdf(critical, 29, centre)) + float(stats.nct.cdf(-critical, 29, centre))
    assert theory - 0.05 < simulate_power(design, simulations=5_000).power < theory + 0.01


@pytest.mark.req("A-04")
@pytest.mark.parametrize("tasks", [5, 8, 12])
def test_power_of_few_tasks_without_repeats_is_exact(tasks: int) -> None:
    """Sums over all tables: a t test would claim much more than the mid-p test that decides."""
    correlated, independent = 0.4 * 0.5, 0.6 * (0.2 * 0.3 + 0.7 * 0.8)
    power = exact_power(0.5, correlated + independent, tasks)
    simulated = simulate_power(Design(tasks, 1, 0.2, 0.7, 0.4), simulations=20_000)
    assert simulated.power == pytest.approx(power, abs=4 * simulated.error)


@pytest.mark.req("A-04")
@pytest.mark.parametrize("tasks,repeats", [(5, 3), (7, 2), (9, 3)])
def test_power_of_few_tasks_with_repeats_is_that_of_the_deciding_test(tasks: int, repeats: int) -> None:
    """Simulates whole studies, attempt by attempt, and decides each with the test of the report."""
    rng = np.random.default_rng(7)
    rates, correlation, studies = (0.1, 0.8), 0.3, 3_000
    detected = 0
    for _ in range(studies):
        differences = []
        for _ in range(tasks):
            difficulty = rng.random() if rng.random() < correlation else None
            draws = [
                [(rng.random() if difficulty is None else difficulty) < rate for _ in range(repeats)] for rate in rates
            ]
            differences.append(Fraction(sum(draws[1]) - sum(draws[0]), repeats))
        detected += sign_flip(differences).p_value <= 0.05
    simulated = simulate_power(Design(tasks, repeats, *rates, correlation), simulations=20_000)
    assert simulated.power == pytest.approx(detected / studies, abs=4 / math.sqrt(4 * studies))


@pytest.mark.req("A-04")
def test_many_simulated_tests_decide_like_single_ones() -> None:
    rng = np.random.default_rng(3)
    for repeats, tasks, alpha in ((2, 9, 0.05), (3, 12, 0.05), (5, 30, 0.05), (2, 8, 0.25)):
        steps = rng.integers(-repeats, repeats + 1, size=(150, tasks))
        steps[:75] = np.maximum(steps[:75], 0)
        single = [sign_flip([Fraction(int(step), repeats) for step in row]).p_value <= alpha for row in steps]
        assert sign_flip_significant(steps, repeats, alpha).tolist() == single
        assert 0 < sum(single) < len(single)
    only_a, only_b = rng.integers(0, 25, size=(2, 500))
    tables = zip(only_a.tolist(), only_b.tolist(), strict=True)
    assert mid_p_significant(only_a, only_b, 0.05).tolist() == [mcnemar_mid_p(a, b) <= 0.05 for a, b in tables]


@pytest.mark.req("A-04")
def test_large_designs_are_almost_those_of_the_exact_test() -> None:
    rng = np.random.default_rng(4)
    steps = rng.binomial(3, 0.6, size=(300, 150)) - rng.binomial(3, 0.53, size=(300, 150))
    exact = [sign_flip([Fraction(int(step), 3) for step in row]).p_value <= 0.05 for row in steps[:60]]
    approximate = sign_flip_significant(steps[:60], 3, 0.05).tolist()
    assert sum(a != b for a, b in zip(exact, approximate, strict=True)) <= 1


@pytest.mark.req("A-04")
def test_level_holds_and_full_correlation_makes_repeats_useless() -> None:
    null = simulate_power(Design(60, 3, 0.5, 0.5, 0.3), simulations=20_000)
    assert null.power <= 0.06
    few, many = (simulate_power(Design(40, k, 0.4, 0.6, 1.0)).power for k in (2, 10))
    assert few == pytest.approx(many, abs=0.03)
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
