"""The randomisation plan is balanced, reproducible to the byte, and stable when a pilot grows."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentbench.core.canonical import sha256_hex
from agentbench.core.errors import ContractError
from agentbench.pilot.design.pilot_file import FeasibilityStage, RepeatedStage, Stages
from agentbench.pilot.design.plan import (
    PlannedTask,
    design_problems,
    imbalances,
    make_plan,
    parse_plan,
    plan_differences,
    plan_text,
)

pytestmark = pytest.mark.component

METHODS = ("a", "b", "noop")
PLAN_SHA256 = "ca8f903aab06c77f53a454e15c0ac087b69ea0f317440c4a1cbb8e72cc9de8d3"
"""Digest of the plan of four tasks in two strata with the seed of the protocol."""


def stages(per_stratum: int = 1, limited: int = 1, full: int = 2) -> Stages:
    return Stages(
        feasibility=FeasibilityStage(tasks_per_stratum=per_stratum),
        limited=RepeatedStage(repeats=limited),
        full=RepeatedStage(repeats=full),
    )


def tasks(count: int, strata: int = 2) -> list[PlannedTask]:
    return [PlannedTask(f"t{number}", f"s{number % strata}") for number in range(count)]


designs = st.tuples(st.integers(2, 12), st.integers(1, 3), st.integers(1, 3), st.integers(0, 3), st.integers(0, 2**32))


@given(designs)
def test_every_method_gets_the_same_attempts(design: tuple[int, int, int, int, int]) -> None:
    count, strata, limited, more, seed = design
    plan = make_plan(tasks(count, strata), METHODS, stages(1, limited, limited + more), seed)
    assert list(imbalances(plan, METHODS)) == []
    assert Counter(line.key for line in plan) == dict.fromkeys(
        (
            (f"t{number}", method, repeat)
            for number in range(count)
            for method in METHODS
            for repeat in range(1, limited + more + 1)
        ),
        1,
    )
    assert [line.order for line in plan] == list(range(1, len(plan) + 1))


@given(designs, st.integers(1, 4))
def test_more_repeats_do_not_change_earlier_lines(design: tuple[int, int, int, int, int], more: int) -> None:
    count, strata, limited, _, seed = design
    small = make_plan(tasks(count, strata), METHODS, stages(1, limited, limited + 1), seed)
    large = make_plan(tasks(count, strata), METHODS, stages(1, limited, limited + 1 + more), seed)
    assert large[: len(small)] == small


@given(designs)
def test_order_of_input_does_not_matter(design: tuple[int, int, int, int, int]) -> None:
    count, strata, limited, more, seed = design
    listed = tasks(count, strata)
    assert make_plan(listed, METHODS, stages(1, limited, limited + more), seed) == make_plan(
        listed[::-1], METHODS, stages(1, limited, limited + more), seed
    )


@pytest.mark.req("L-01")
def test_plan_of_the_protocol_seed_is_the_same_on_every_machine() -> None:
    text = plan_text(make_plan(tasks(4), METHODS, stages(), 20260307))
    assert text.startswith("order,stage,task_id,stratum,method,repeat\n1,feasibility,t0,s0,b,1\n")
    assert sha256_hex(text.encode()) == PLAN_SHA256


@given(st.integers(2, 12), st.integers(1, 3), st.integers(0, 2**32))
def test_feasibility_draws_tasks_of_every_stratum(count: int, per_stratum: int, seed: int) -> None:
    plan = make_plan(tasks(count), METHODS, stages(per_stratum), seed)
    drawn = {(line.task_id, line.stratum) for line in plan if line.stage == "feasibility"}
    sizes = Counter(task.stratum for task in tasks(count))
    assert Counter(stratum for _, stratum in drawn) == {name: min(per_stratum, size) for name, size in sizes.items()}


def test_plan_survives_its_file() -> None:
    plan = make_plan([PlannedTask("t,1", 'a "b"'), PlannedTask("t2", "s")], METHODS, stages(), 7)
    assert parse_plan(plan_text(plan)) == plan


@pytest.mark.req("L-02")
def test_method_that_lacks_a_repeat_is_unbalanced() -> None:
    plan = make_plan(tasks(4), METHODS, stages(), 7)
    lost = plan[5]
    (first, *_) = plan_differences([*plan[:5], *plan[6:]], plan, METHODS)
    assert (
        first
        == f"unbalanced: {lost.method}, task {lost.task_id}, repeat {lost.repeat} of stage {lost.stage} is missing"
    )


def test_plan_differences_name_the_first_changed_line() -> None:
    plan = make_plan(tasks(4), METHODS, stages(), 7)
    swapped = [plan[0], plan[2], plan[1], *plan[3:]]
    assert [text[:12] for text in plan_differences(swapped, plan, METHODS)] == ["plan.csv:3: "]
    assert list(plan_differences(plan, plan, METHODS)) == []


def test_invalid_lines_of_a_plan_are_listed() -> None:
    with pytest.raises(ContractError) as caught:
        parse_plan("order,stage,task_id,stratum,method,repeat\n1,full,t,s,a,x\n2,full\n")
    assert [problem.partition(": ")[0] for problem in caught.value.problems] == ["plan.csv:2", "plan.csv:3"]


def test_stratum_with_one_task_and_empty_stage_are_refused() -> None:
    listed = tasks(3)
    plan = make_plan(listed, METHODS, stages(per_stratum=2, limited=1, full=1), 7)
    assert list(design_problems(listed, plan)) == [
        (("strata",), "stratum s1 has one task; at least 2 are needed, or use fewer keys here"),
        *(
            (
                ("stages", stage, "repeats"),
                f"stage {stage} has no attempts: earlier stages already make all of them; give it more repeats than they have",
            )
            for stage in ("limited", "full")
        ),
    ]
