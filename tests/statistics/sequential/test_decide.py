from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace

import pytest

from agentbench.statistics.paired import mcnemar_exact
from agentbench.statistics.sequential.boundaries import nominal_level, spending_bounds
from agentbench.statistics.sequential.decide import can_decide, decide, first_decision, needed_tasks, pairs_of
from agentbench.statistics.sequential.rules import (
    Anytime,
    Block,
    Futility,
    GroupSequential,
    PlannedBlocks,
    Rule,
    SequentialOutcome,
    Spending,
)

pytestmark = pytest.mark.component

RULES: list[Rule] = [
    GroupSequential(margin=0.2, futility=Futility(0.3)),
    GroupSequential(looks=3, spending=Spending.POCOCK),
    Anytime(looks=10, margin=0.2),
]


def blocks_of(*pairs: tuple[int, int], repeats: int = 1) -> list[Block]:
    """Return one block per pair and repeat: repeat by repeat, as in a plan."""
    return [Block(f"t{task}", repeat, *pair) for repeat in range(1, repeats + 1) for task, pair in enumerate(pairs)]


def random_blocks(planned: PlannedBlocks, rate_a: float, rate_b: float, seed: int) -> list[Block]:
    rng = random.Random(seed)
    return [
        Block(f"t{task}", repeat, int(rng.random() < rate_a), int(rng.random() < rate_b))
        for repeat in range(1, planned.repeats + 1)
        for task in rng.sample(range(planned.tasks), planned.tasks)
    ]


def swap(blocks: Sequence[Block]) -> list[Block]:
    return [replace(block, a=block.b, b=block.a) for block in blocks]


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("seed", range(4))
def test_exchanging_the_methods_mirrors_the_decision(rule: Rule, seed: int) -> None:
    planned = PlannedBlocks(12, 2)
    blocks = random_blocks(planned, 0.3, 0.7, seed)
    mirrored = {
        SequentialOutcome.A_BETTER: SequentialOutcome.B_BETTER,
        SequentialOutcome.B_BETTER: SequentialOutcome.A_BETTER,
    }
    for look in (1, rule.looks):
        one, other = decide(rule, planned, blocks, look), decide(rule, planned, swap(blocks), look)
        assert other.outcome is mirrored.get(one.outcome, one.outcome)
        assert other.adjusted_p == pytest.approx(one.adjusted_p)
        assert one.interval is not None
        assert other.interval is not None
        assert (other.interval.low, other.interval.high) == pytest.approx((-one.interval.high, -one.interval.low))


def test_a_look_compares_the_exact_test_with_its_nominal_level() -> None:
    rule, planned = GroupSequential(looks=2, spending=Spending.POCOCK), PlannedBlocks(20, 1)
    level = nominal_level(spending_bounds(Spending.POCOCK, (0.5, 1.0), 0.05)[0])
    for wins in range(11):
        blocks = blocks_of(*[(0, 1)] * wins, *[(1, 0)] * (10 - wins))
        decision = decide(rule, planned, blocks, 1)
        assert decision.p_value == mcnemar_exact(10 - wins, wins)
        assert decision.outcome.stops == (decision.p_value <= level)
        assert (abs(decision.statistic) >= decision.boundary) == decision.outcome.stops


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("seed", range(3))
def test_adjusted_p_is_at_most_alpha_exactly_when_the_look_decides(rule: Rule, seed: int) -> None:
    planned = PlannedBlocks(20, 1)
    blocks = random_blocks(planned, 0.2, 0.8, seed)
    for look in {1, 2, rule.looks}:
        decision = decide(rule, planned, blocks, look)
        assert (decision.adjusted_p <= 0.05) == (
            decision.outcome in {SequentialOutcome.A_BETTER, SequentialOutcome.B_BETTER}
        )
        assert decision.adjusted_p >= decision.p_value


def test_later_blocks_do_not_change_a_look() -> None:
    rule, planned = GroupSequential(looks=4), PlannedBlocks(10, 2)
    blocks = random_blocks(planned, 0.4, 0.6, 1)
    assert decide(rule, planned, blocks, 2) == decide(rule, planned, blocks[:10], 2)
    with pytest.raises(ValueError, match="look 3 needs 15 blocks, 10 are complete"):
        decide(rule, planned, blocks[:10], 3)
    with pytest.raises(ValueError, match="looks 1 to 4, not 5"):
        decide(rule, planned, blocks, 5)


def test_the_first_look_that_decides_counts() -> None:
    rule, planned = GroupSequential(looks=4), PlannedBlocks(20, 1)
    blocks = blocks_of(*[(0, 1)] * 20)
    decision = first_decision(rule, planned, blocks)
    assert decision is not None
    assert (decision.outcome, decision.look, decision.blocks) == (SequentialOutcome.B_BETTER, 2, 10)
    assert decision.information_fraction == 0.5
    assert first_decision(rule, planned, blocks[:4]) is None
    waiting = first_decision(rule, planned, blocks[:9])
    assert waiting is not None
    assert (waiting.outcome, waiting.look) == (SequentialOutcome.CONTINUE, 1)


@pytest.mark.parametrize("rule", [GroupSequential(), Anytime(looks=5)])
def test_the_last_look_without_a_decision_is_inconclusive(rule: Rule) -> None:
    planned = PlannedBlocks(10, 1)
    decision = first_decision(rule, planned, blocks_of(*[(0, 1), (1, 0)] * 5))
    assert decision is not None
    assert (decision.outcome, decision.look) == (SequentialOutcome.INCONCLUSIVE, 5)


@pytest.mark.parametrize("rule", [GroupSequential(margin=0.1), Anytime(looks=5, margin=0.1)])
def test_equal_methods_are_equivalent_only_with_a_margin(rule: Rule) -> None:
    planned = PlannedBlocks(80, 1)
    blocks = blocks_of(*[(1, 1), (0, 0)] * 40)
    decision = first_decision(rule, planned, blocks)
    assert decision is not None
    assert decision.interval is not None
    assert decision.outcome is SequentialOutcome.EQUIVALENT
    assert decision.blocks < 80
    assert -0.1 < decision.interval.low < decision.interval.high < 0.1
    without = first_decision(replace(rule, margin=None), planned, blocks)
    assert without is not None
    assert without.outcome is SequentialOutcome.INCONCLUSIVE


def test_repeats_of_a_task_are_not_counted_as_independent() -> None:
    # Five tasks differ in every one of ten repeats. As 50 independent blocks this would be overwhelming.
    planned = PlannedBlocks(5, 10)
    blocks = blocks_of(*[(0, 1)] * 5, repeats=10)
    for rule in (GroupSequential(), Anytime(looks=10)):
        decision = first_decision(rule, planned, blocks)
        assert decision is not None
        assert decision.outcome is SequentialOutcome.INCONCLUSIVE
    assert decide(GroupSequential(), planned, blocks, 5).p_value == 2 / 2**5


@pytest.mark.parametrize("rule", RULES)
def test_invalid_blocks_complete_a_look_and_add_nothing(rule: Rule) -> None:
    planned = PlannedBlocks(20, 1)
    valid = random_blocks(planned, 0.2, 0.9, 5)
    blocks = [replace(block, a=None) if index % 4 == 0 else block for index, block in enumerate(valid)]
    decision = decide(rule, planned, blocks, rule.looks)
    assert (decision.blocks, decision.tasks) == (20, 15)
    assert {pair.task for pair in pairs_of(blocks)} == {block.task for block in blocks if block.a is not None}
    nothing = decide(rule, planned, [replace(block, b=None) for block in valid], rule.looks)
    assert (nothing.difference, nothing.adjusted_p, nothing.outcome) == (None, 1.0, SequentialOutcome.INCONCLUSIVE)


def test_futility_stops_when_the_planned_effect_is_out_of_reach() -> None:
    planned = PlannedBlocks(60, 1)
    blocks = blocks_of(*[(1, 0), (0, 1), (1, 1), (0, 0)] * 15)
    small = first_decision(GroupSequential(futility=Futility(0.2)), planned, blocks)
    large = first_decision(GroupSequential(futility=Futility(0.9)), planned, blocks)
    assert small is not None
    assert large is not None
    assert small.outcome is SequentialOutcome.FUTILE
    assert small.conditional_power is not None
    assert small.conditional_power < 0.1
    assert large.look > small.look


@pytest.mark.parametrize("repeats, effect", [(1, 0.2), (3, 0.1)])
def test_futility_stops_methods_without_a_single_difference(repeats: int, effect: float) -> None:
    blocks = blocks_of(*[(1, 1), (0, 0)] * 30, repeats=repeats)
    decision = first_decision(GroupSequential(futility=Futility(effect)), PlannedBlocks(60, repeats), blocks)
    assert decision is not None
    assert (decision.outcome, decision.look) == (SequentialOutcome.FUTILE, 4)


def test_futility_does_not_change_the_boundaries() -> None:
    planned = PlannedBlocks(30, 1)
    blocks = random_blocks(planned, 0.5, 0.5, 3)
    for look in range(1, 6):
        plain = decide(GroupSequential(), planned, blocks, look)
        futile = decide(GroupSequential(futility=Futility(0.3)), planned, blocks, look)
        assert (futile.boundary, futile.adjusted_p) == (plain.boundary, plain.adjusted_p)


def test_too_few_tasks_cannot_decide() -> None:
    assert not can_decide(GroupSequential(), PlannedBlocks(5, 3))
    assert can_decide(GroupSequential(), PlannedBlocks(6, 1))
    assert not can_decide(Anytime(looks=5), PlannedBlocks(7, 1))
    assert can_decide(Anytime(looks=5), PlannedBlocks(8, 1))
    assert (needed_tasks(GroupSequential(), 1), needed_tasks(Anytime(looks=5), 1)) == (6, 8)
