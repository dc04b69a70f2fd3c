from __future__ import annotations

import pytest

from agentbench.core.canonical import Json
from agentbench.statistics.sequential.rules import (
    Anytime,
    Futility,
    GroupSequential,
    PlannedBlocks,
    Rule,
    Spending,
    look_schedule,
    read_rule,
    rule_json,
)

pytestmark = pytest.mark.component


@pytest.mark.parametrize(
    "rule",
    [
        GroupSequential(),
        GroupSequential(3, Spending.POCOCK, Futility(0.2, 0.15), margin=0.1, alpha=0.01),
        Anytime(looks=7, margin=0.05),
    ],
)
def test_a_recorded_rule_is_read_back(rule: Rule) -> None:
    assert read_rule(rule_json(rule)) == rule


def test_omitted_keys_have_defaults() -> None:
    assert read_rule({"rule": "group_sequential"}) == GroupSequential()
    assert read_rule({"rule": "anytime", "looks": None}) == Anytime()


@pytest.mark.parametrize(
    "value, problem",
    [
        ({}, "rule must be group_sequential or anytime, got None"),
        ({"rule": "bayes"}, "got 'bayes'"),
        ({"rule": "anytime", "spending": "pocock"}, "unknown key 'spending' of rule anytime"),
        ({"rule": "group_sequential", "spending": "linear"}, "spending must be obrien_fleming or pocock"),
        ({"rule": "group_sequential", "looks": 0}, "looks must be between 1 and 50"),
        ({"rule": "group_sequential", "looks": 2.5}, "looks must be an integer"),
        ({"rule": "group_sequential", "looks": True}, "looks must be a number"),
        ({"rule": "group_sequential", "margin": 1.5}, "margin must be between 0 and 1"),
        ({"rule": "group_sequential", "alpha": 0}, "alpha must be between 0 and 1"),
        ({"rule": "group_sequential", "futility": 0.1}, "futility needs effect"),
        ({"rule": "group_sequential", "futility": {"effect": 0}}, "futility effect must be above 0"),
        ({"rule": "group_sequential", "futility": {"effect": 0.1, "beta": 1}}, "futility needs effect"),
        ({"rule": "anytime", "margin": "0.1"}, "margin must be a number, got '0.1'"),
    ],
)
def test_bad_rules_are_refused(value: dict[str, Json], problem: str) -> None:
    with pytest.raises(ValueError, match=problem.replace("(", r"\(")):
        read_rule(value)


def test_looks_are_equally_spaced_and_end_with_the_plan() -> None:
    assert look_schedule(GroupSequential(5), PlannedBlocks(12, 2)) == (5, 10, 15, 20, 24)
    assert look_schedule(Anytime(looks=6), PlannedBlocks(6, 1)) == (1, 2, 3, 4, 5, 6)


def test_more_looks_than_blocks_are_refused() -> None:
    with pytest.raises(ValueError, match="6 looks need at least 6 blocks, the plan has 5"):
        look_schedule(GroupSequential(6), PlannedBlocks(5, 1))
    with pytest.raises(ValueError, match="at least 2 tasks"):
        PlannedBlocks(1, 3)
