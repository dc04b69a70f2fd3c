"""Simulated studies are decided as `decide` does, and keep the error rate. The whole campaign: tests/campaigns/sequential.py."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from agentbench.statistics.paired import sign_flip
from agentbench.statistics.power import Design
from agentbench.statistics.sequential.decide import first_decision
from agentbench.statistics.sequential.rules import (
    Anytime,
    Block,
    Futility,
    GroupSequential,
    Rule,
    SequentialOutcome,
    Spending,
)
from agentbench.statistics.sequential.simulate import (
    OUTCOMES,
    block_order,
    characteristics,
    decide_studies,
    sign_flip_p_values,
    simulate_rule,
    simulate_studies,
)
from tests.campaigns.sequential import MARGIN, Cell, exact_error, tolerated, with_margin

pytestmark = pytest.mark.component

STUDIES = 1_000


@pytest.mark.parametrize(
    "rule",
    [
        GroupSequential(looks=3, margin=0.3, futility=Futility(0.3, 0.2)),
        GroupSequential(looks=2, spending=Spending.POCOCK, margin=0.25),
        Anytime(looks=4, margin=0.35),
    ],
)
@pytest.mark.parametrize(
    "tasks, repeats, rates", [(12, 1, (0.3, 0.8)), (9, 3, (0.9, 0.9)), (25, 1, (0.9, 0.9)), (20, 2, (1.0, 1.0))]
)
def test_simulated_studies_are_decided_like_real_ones(
    rule: Rule, tasks: int, repeats: int, rates: tuple[float, float]
) -> None:
    studies = simulate_studies(Design(tasks, repeats, *rates, 0.4), 12, seed=7)
    outcomes, looks = decide_studies(rule, studies)
    order = block_order(studies.planned)
    for study in range(len(studies)):
        blocks = [
            Block(str(task), repeat, int(studies.a[study, task, repeat - 1]), int(studies.b[study, task, repeat - 1]))
            for task, repeat in order
        ]
        decision = first_decision(rule, studies.planned, blocks)
        assert decision is not None
        assert (decision.outcome, decision.look) == (OUTCOMES[outcomes[study]], looks[study])


def test_sign_flip_p_values_agree_with_the_exact_count() -> None:
    steps = np.random.default_rng(3).integers(-4, 5, size=(30, 15))
    exact = [sign_flip([Fraction(int(step)) for step in row]).p_value for row in steps]
    assert sign_flip_p_values(steps) == pytest.approx(exact, abs=1e-12)
    assert sign_flip_p_values(np.zeros((2, 3), dtype=np.int64)).tolist() == [1.0, 1.0]


@pytest.mark.parametrize("rule", [GroupSequential(), GroupSequential(spending=Spending.POCOCK), Anytime(looks=12)])
@pytest.mark.parametrize(
    "cell",
    [Cell(30, 1, 0.5, 0.5, 0.0), Cell(12, 3, 0.5, 0.5, 0.5, "separate"), Cell(30, 3, 0.8, 0.8, 0.5, "separate")],
    ids=str,
)
def test_type_one_error_of_equal_methods_is_at_most_alpha(rule: Rule, cell: Cell) -> None:
    result = characteristics(rule, cell.studies(STUDIES))
    assert result.decided <= tolerated(STUDIES)


@pytest.mark.parametrize("spending", Spending)
@pytest.mark.parametrize("tasks", [10, 20, 40])
def test_exact_error_with_one_attempt_per_task_is_at_most_alpha(spending: Spending, tasks: int) -> None:
    rule = GroupSequential(spending=spending)
    errors = [exact_error(rule, tasks, share) for share in (0.1, 0.25, 0.5, 0.75, 1.0)]
    assert 0 < max(errors) <= 0.05


@pytest.mark.parametrize("name", with_margin())
def test_methods_that_differ_by_the_margin_are_rarely_equivalent(name: str) -> None:
    # Few tasks differ, all in the same direction: the hardest case for an interval from the variance.
    result = characteristics(with_margin()[name], Cell(60, 3, 0.0, MARGIN, 0.5, "separate").studies(STUDIES))
    assert result.shares[SequentialOutcome.EQUIVALENT] <= tolerated(STUDIES)


def test_a_large_difference_is_found_with_fewer_attempts() -> None:
    design = Design(60, 1, 0.3, 0.6, 0.5)
    fixed = simulate_rule(GroupSequential(looks=1), design, simulations=STUDIES)
    sequential = simulate_rule(GroupSequential(), design, simulations=STUDIES)
    assert fixed.attempts == fixed.planned_attempts == 120
    assert sequential.decided > fixed.decided - 0.03
    assert sequential.attempts < 0.8 * fixed.attempts


def test_futility_saves_attempts_between_equal_methods() -> None:
    design = Design(60, 1, 0.5, 0.5, 0.5)
    rule = GroupSequential(futility=Futility(0.2))
    assert simulate_rule(rule, design, simulations=STUDIES).attempts < 110
