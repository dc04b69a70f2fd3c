"""The power analysis: the worst case decides, and the counts it names are enough."""

from __future__ import annotations

import pytest

from agentbench.pilot.decisions.criteria import power_criterion
from agentbench.pilot.design.pilot_file import PowerAssumptions
from agentbench.pilot.design.power_analysis import analyse_power, needed_text, power_json

pytestmark = pytest.mark.component

SEED = 20260307
MODEST = PowerAssumptions(rates=(0.3,), effect=0.4, correlations=(0.2, 0.8))


@pytest.mark.req("A-04")
def test_least_favourable_scenario_decides() -> None:
    analysis = analyse_power(MODEST, 20, 3, SEED)
    assert analysis.worst.power == min(scenario.power for scenario in analysis.scenarios)
    assert analysis.supported == (analysis.worst.power >= 0.8)
    assert len(analysis.scenarios) == 2


@pytest.mark.req("A-04")
def test_counts_that_would_do_reach_the_target() -> None:
    small = analyse_power(MODEST, 4, 1, SEED)
    assert not small.supported
    assert small.tasks_needed is not None
    enough = analyse_power(MODEST, small.tasks_needed, 1, SEED)
    assert enough.supported
    criterion = power_criterion(small)
    assert not criterion.met
    assert f"{small.tasks_needed} tasks with 1 repeats" in criterion.evidence


@pytest.mark.req("A-04")
@pytest.mark.parametrize("effect", [0.2, 0.3])
def test_recommended_sizes_are_accepted(effect: float) -> None:
    assumptions = PowerAssumptions(rates=(0.3, 0.5), effect=effect, correlations=(0.2, 0.5))
    for tasks in (16, 24):
        analysis = analyse_power(assumptions, tasks, 2, SEED)
        if analysis.tasks_needed is not None:
            assert analyse_power(assumptions, analysis.tasks_needed, 2, SEED).supported
        if analysis.repeats_needed is not None:
            assert analyse_power(assumptions, tasks, analysis.repeats_needed, SEED).supported


@pytest.mark.req("A-04")
def test_detectable_effect_shrinks_with_more_tasks() -> None:
    effects = [analyse_power(MODEST, tasks, 2, SEED).scenarios[0].detectable for tasks in (8, 12, 40)]
    known = [effect for effect in effects if effect is not None]
    assert len(known) == 3
    assert known == sorted(known, reverse=True)


def test_same_input_gives_the_same_file() -> None:
    assert power_json(analyse_power(MODEST, 8, 2, SEED)) == power_json(analyse_power(MODEST, 8, 2, SEED))


def test_one_task_supports_nothing() -> None:
    analysis = analyse_power(MODEST, 1, 2, SEED)
    assert (analysis.worst.power, analysis.supported, analysis.repeats_needed) == (0.0, False, None)
    assert "tasks with 2 repeats" in needed_text(analysis)


@pytest.mark.req("A-04")
def test_too_few_tasks_for_the_exact_test_have_no_power() -> None:
    """Five tasks that all differ have p = 0.0625 in the test that decides with repeats."""
    certain = PowerAssumptions(rates=(0.0,), effect=1.0, correlations=(0.5,))
    assert analyse_power(certain, 5, 2, SEED).worst.power == 0.0
    assert analyse_power(certain, 6, 2, SEED).worst.power == 1.0
    assert analyse_power(certain, 5, 2, SEED).tasks_needed == 6
