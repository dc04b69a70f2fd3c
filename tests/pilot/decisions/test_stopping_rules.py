"""Stopping rules hold exactly when their evidence reaches the registered limit."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentbench.core.reasons import TerminationCode
from agentbench.pilot.decisions.efficacy import RULE, blocks_of, efficacy_state, sequential_decision
from agentbench.pilot.decisions.stopping_rules import first_stop, stopping_rules
from tests.pilot.samples import attempt, lines, pilot, violation

pytestmark = pytest.mark.component

CONFIG = pilot(stopping={"safety_attempts": 2, "breaker_attempts": 3, "cap_attempts": 4})
LINES = lines(CONFIG)
MANY = tuple(f"t{number:02}" for number in range(16))


@pytest.mark.req("L-04")
@given(st.sets(st.integers(0, len(LINES) - 1)), st.randoms(use_true_random=False))
def test_safety_rule_counts_attempts_of_one_method(unsafe: set[int], shuffled: object) -> None:
    made = [violation(line) if index in unsafe else attempt(line) for index, line in enumerate(LINES)]
    counts = [sum(LINES[index].method == method for index in unsafe) for method in CONFIG.names]
    stop = first_stop(stopping_rules(CONFIG, made, 0.0))
    assert (stop is not None) == (max(counts) >= 2)
    if stop is not None:
        assert stop.rule == "safety"
        assert set(stop.evidence) <= {made[index].attempt_id for index in unsafe}
    shuffled.shuffle(made)  # type: ignore[attr-defined]
    assert first_stop(stopping_rules(CONFIG, made, 0.0)) == stop


@pytest.mark.req("L-04")
@pytest.mark.parametrize(
    "rule,code,limit",
    [("breakers", TerminationCode.NO_PROGRESS, 3), ("caps", TerminationCode.WALL_CAP, 4)],
)
def test_breakers_and_caps_stop_at_their_limit(rule: str, code: TerminationCode, limit: int) -> None:
    own = [line for line in LINES if line.method == "lazy"]
    made = [attempt(line, termination=code) for line in own[:limit]]
    assert first_stop(stopping_rules(CONFIG, made[:-1], 0.0)) is None
    stop = first_stop(stopping_rules(CONFIG, made, 0.0))
    assert stop is not None
    assert (stop.rule, len(stop.evidence)) == (rule, limit)


@pytest.mark.req("L-04")
@given(st.floats(0, 200))
def test_total_budget_stops_when_it_is_spent(spent: float) -> None:
    stop = first_stop(stopping_rules(CONFIG, [], spent))
    assert (stop is not None) == (spent >= 100)


@pytest.mark.req("L-04")
@pytest.mark.parametrize("rule", ["group_sequential", "anytime"])
def test_efficacy_stops_early_for_a_large_difference(rule: str) -> None:
    config = pilot(
        stopping={"efficacy": {"rule": rule, "looks": 4}},
        stages={"feasibility": {"tasks_per_stratum": 2}, "limited": {"repeats": 1}, "full": {"repeats": 3}},
    )
    planned = lines(config, MANY)
    made = [attempt(line, passed=line.method == "good") for line in planned]
    needed = next(
        count for count in range(len(planned)) if efficacy_state(config, planned, made[:count])[0].stop is not None
    )
    assert needed < len(planned)
    (state,) = efficacy_state(config, planned, made[:needed])
    assert state.stop is not None
    assert state.stop.rule == RULE
    # The last look is the end of the plan, not a stop.
    equal = [attempt(line) for line in planned]
    assert efficacy_state(config, planned, equal)[0].stop is None


@pytest.mark.req("L-04")
def test_efficacy_is_symmetric_in_the_methods() -> None:
    config = pilot(stopping={"efficacy": {"rule": "group_sequential", "looks": 2}})
    planned = lines(config, MANY)
    better = [attempt(line, passed=line.method == "good") for line in planned]
    worse = [attempt(line, passed=line.method == "lazy") for line in planned]
    first, second = sequential_decision(config, planned, better), sequential_decision(config, planned, worse)
    assert first is not None
    assert second is not None
    assert (first.outcome, second.outcome) == ("b_better", "a_better")
    assert first.look == second.look
    assert first.difference == -(second.difference or 0)


@pytest.mark.req("L-04")
@pytest.mark.parametrize("rule", ["group_sequential", "anytime"])
def test_removed_tasks_do_not_move_the_looks(rule: str) -> None:
    config = pilot(stopping={"efficacy": {"rule": rule, "looks": 4}})
    planned = lines(config, MANY)
    removed = frozenset(MANY[:3])
    kept = [attempt(line) for line in planned if line.task_id not in removed]
    decision = sequential_decision(config, planned, kept, removed)
    assert decision is not None
    assert (decision.look, decision.blocks, decision.planned_blocks) == (4, 32, 32)
    assert decision.tasks == 13
    assert efficacy_state(config, planned, kept, removed)[0].stop is None
    everything = sequential_decision(config, planned, [], frozenset(MANY))
    assert everything is not None
    assert everything.outcome == "inconclusive"


@given(st.integers(0, len(LINES)))
def test_blocks_end_at_the_first_incomplete_one(missing: int) -> None:
    kept = [attempt(line) for line in LINES if line.order != missing]
    blocks = [(block.task, block.repeat) for block in blocks_of(CONFIG, LINES, kept)]
    order = list(dict.fromkeys((line.task_id, line.repeat) for line in LINES))
    assert blocks == order[: len(blocks)]
    lost = next((line for line in LINES if line.order == missing), None)
    assert len(blocks) == (order.index((lost.task_id, lost.repeat)) if lost else len(order))


@pytest.mark.req("L-04")
def test_efficacy_uses_the_level_and_effect_of_the_power_assumptions() -> None:
    config = pilot(
        power={"rates": [0.3], "effect": 0.4, "correlations": [0.2], "alpha": 0.01},
        stopping={"efficacy": {"rule": "group_sequential", "looks": 2, "futility": {"conditional_power": 0.2}}},
    )
    planned = lines(config, MANY)
    decision = sequential_decision(config, planned, [attempt(line) for line in planned])
    assert decision is not None
    assert decision.rule.alpha == 0.01
    assert decision.rule.futility.effect == 0.4  # type: ignore[union-attr]
