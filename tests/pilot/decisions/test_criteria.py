"""Entry and exit criteria decide from records alone and state their evidence."""

from __future__ import annotations

import pytest

from agentbench.core.reasons import InvalidCause, Outcome, RunStatus, TerminationCode
from agentbench.pilot.decisions.criteria import Criterion, entry_criteria, exit_criteria
from tests.pilot.samples import attempt, facts, lines, pilot, screen, screened, violation

pytestmark = pytest.mark.component

CONFIG = pilot()
LINES = lines(CONFIG)
FEASIBILITY = [line for line in LINES if line.stage == "feasibility"]
LIMITED = [line for line in LINES if line.stage != "full"]


def unmet(criteria: tuple[Criterion, ...]) -> list[str]:
    return [criterion.name for criterion in criteria if not criterion.met]


@pytest.mark.req("L-03")
def test_feasibility_needs_a_clean_flake_screen() -> None:
    assert unmet(entry_criteria("feasibility", facts(CONFIG, [], screen=None))) == ["checks_deterministic"]
    assert unmet(entry_criteria("feasibility", facts(CONFIG, []))) == []
    flaky = screen(screened("one", valid=False, flaky=("answer",), why="flaky: answer"))
    assert unmet(entry_criteria("feasibility", facts(CONFIG, [], screen=flaky))) == ["flake_rate"]
    broken = screen(screened("one", valid=False, baseline="pass", why="the baseline must fail but passes"))
    assert unmet(entry_criteria("feasibility", facts(CONFIG, [], screen=broken))) == ["checks_deterministic"]


@pytest.mark.req("L-03")
def test_tolerance_admits_some_flaky_tasks() -> None:
    tolerant = pilot(flakes={"tolerance": 0.25})
    flaky = screen(screened("one", valid=False, flaky=("answer",), why="flaky: answer"))
    assert unmet(entry_criteria("feasibility", facts(tolerant, [], screen=flaky))) == []


@pytest.mark.req("L-03")
def test_feasibility_ends_with_complete_priced_records() -> None:
    made = [attempt(line) for line in FEASIBILITY]
    assert unmet(exit_criteria("feasibility", facts(CONFIG, made))) == []
    assert unmet(exit_criteria("feasibility", facts(CONFIG, made[1:]))) == ["records_complete"]
    for code in (TerminationCode.INTERRUPTED, TerminationCode.SANDBOX_ERROR, TerminationCode.SETUP_FAILED):
        ended = attempt(FEASIBILITY[0], termination=code)
        assert unmet(exit_criteria("feasibility", facts(CONFIG, [ended, *made[1:]]))) == ["records_complete"]
    unpriced = attempt(FEASIBILITY[0], priced=False)
    assert unmet(exit_criteria("feasibility", facts(CONFIG, [unpriced, *made[1:]]))) == ["costs_recorded"]


@pytest.mark.req("L-03")
def test_boundary_violation_and_flakes_keep_the_limited_stage_out() -> None:
    made = [attempt(line) for line in FEASIBILITY]
    done = frozenset({"feasibility"})
    assert unmet(entry_criteria("limited", facts(CONFIG, made, completed=done))) == []
    assert unmet(entry_criteria("limited", facts(CONFIG, made))) == ["feasibility_complete"]
    unsafe = [violation(FEASIBILITY[0]), *made[1:]]
    assert unmet(entry_criteria("limited", facts(CONFIG, unsafe, completed=done))) == ["no_boundary_violation"]
    noops = [line for line in LINES if line.method == "noop" and line.task_id == "one"]
    differing = [
        attempt(noops[0], patch="empty"),
        attempt(noops[1], passed=False, patch="empty", attempt_id="second"),
    ]
    assert unmet(entry_criteria("limited", facts(CONFIG, differing, completed=done))) == ["flake_rate"]


@pytest.mark.req("L-03")
def test_limited_stage_needs_endpoint_subscores_and_budget() -> None:
    made = [attempt(line) for line in LIMITED]
    assert unmet(exit_criteria("limited", facts(CONFIG, made))) == []
    lost = [
        attempt(line, status=RunStatus.INVALID, cause=InvalidCause.TASK, checks=Outcome.ERROR)
        if line.key == LIMITED[0].key
        else attempt(line)
        for line in LIMITED
    ]
    assert unmet(exit_criteria("limited", facts(CONFIG, lost))) == ["endpoint_computable"]
    unscored = [attempt(LIMITED[0], subscores=False), *made[1:]]
    assert unmet(exit_criteria("limited", facts(CONFIG, unscored))) == ["subscores_computable"]
    assert unmet(exit_criteria("limited", facts(CONFIG, made, spent=100.5))) == ["within_budget"]


@pytest.mark.req("L-03", "A-04")
def test_full_stage_needs_power_and_budget() -> None:
    made = [attempt(line) for line in LIMITED]
    done = frozenset({"feasibility", "limited"})
    assert unmet(entry_criteria("full", facts(CONFIG, made, completed=done))) == []
    modest = pilot(power={"rates": [0.3], "effect": 0.2, "correlations": [0.5], "alpha": 0.3})
    refused = entry_criteria("full", facts(modest, made, completed=done))
    assert unmet(refused) == ["power_supported"]
    assert "would do" in refused[1].evidence
    poor = pilot(budgets={"total": 12.0, "task": 5.0, "run": 5.0})
    refused = entry_criteria("full", facts(poor, made, completed=done))
    assert unmet(refused) == ["budget_remaining"]
    # 8 of 12 are spent; a repeat of four tasks by four methods costs 8.
    assert refused[2].evidence.endswith("1 repeats in all would fit")


@pytest.mark.req("L-03")
def test_overspent_plan_without_attempts_left_is_refused() -> None:
    made = [attempt(line) for line in LINES]
    done = frozenset({"feasibility", "limited"})
    refused = entry_criteria("full", facts(CONFIG, made, completed=done, spent=100.5))
    assert unmet(refused) == ["budget_remaining"]
    assert refused[2].evidence == "0 attempts are expected to cost 0, -0.5 of the budget is left"


def test_spent_budget_counts_as_not_passed() -> None:
    ended = attempt(
        LINES[0], status=RunStatus.INVALID, cause=InvalidCause.OPERATOR, termination=TerminationCode.TOTAL_BUDGET
    )
    assert ended.complete
    assert ended.trial.value(CONFIG.endpoint) == 0
