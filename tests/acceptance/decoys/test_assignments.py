"""Plans: each test is real in some run, and nothing reveals in which."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentbench.acceptance.decoys.assignments import DecoyPlan, DecoyTarget, draw_runs
from agentbench.acceptance.decoys.mutation import Kind, Mutation

pytestmark = pytest.mark.component

REAL = -1


def mutation(values: int, kind: Kind = "value") -> Mutation:
    replacements = tuple(str(number) for number in range(1, values + 1))
    return Mutation(line=1, start=0, end=1, original="0", replacements=replacements, kind=kind)


def target(
    name: str, values: int = 2, *, ids: tuple[str, ...] = (), fail_to_pass: bool = True, kind: Kind = "value"
) -> DecoyTarget:
    return DecoyTarget(
        file="a.py",
        place=(name,),
        ids=ids or (f"a.py::{name}",),
        fail_to_pass=fail_to_pass,
        mutation=mutation(values, kind),
    )


def plan_of(*targets: DecoyTarget) -> DecoyPlan:
    return DecoyPlan(targets=targets, runs=draw_runs(targets))


drawn_targets = st.builds(
    lambda name, values, fail_to_pass: target(name, values, fail_to_pass=fail_to_pass),
    st.from_regex(r"test_[a-z]{1,6}", fullmatch=True),
    st.integers(1, 2),
    st.booleans(),
)


@pytest.mark.req("G-01")
@given(st.lists(drawn_targets, min_size=1, max_size=8, unique_by=lambda drawn: drawn.place))
def test_each_test_is_real_and_a_decoy_somewhere(drawn: list[DecoyTarget]) -> None:
    plan = plan_of(*drawn)
    assignments = plan.assignments()
    assert plan == DecoyPlan.model_validate_json(plan.model_dump_json())
    assert assignments[0].only == ()
    assert all(assignment.only == plan.ids for assignment in assignments[1:])
    for one in drawn:
        versions = Counter(assignment.decoys.get(one, REAL) for assignment in assignments)
        assert 0 < versions[REAL] < len(assignments)
        assert all(version < len(one.mutation.replacements) for version in versions)
        if len(one.mutation.replacements) >= len(assignments) - 1:
            assert set(versions.values()) == {1}


@pytest.mark.req("G-01")
def test_real_tests_are_equally_likely_in_every_run() -> None:
    number, condition = target("test_a"), target("test_b", 1, fail_to_pass=False)
    runs = [plan_of(number, condition).assignments() for _ in range(400)]
    assert {len(assignments) for assignments in runs} == {3}
    for one, expected in ((number, 133), (condition, 200)):
        for run in range(3):
            real = sum(one not in assignments[run].decoys for assignments in runs)
            assert expected - 60 < real < expected + 60  # six standard deviations


@pytest.mark.req("G-01")
@pytest.mark.parametrize("count, runs", [(0, 2), (1, 3), (2, 2), (9, 2)])
def test_a_single_test_runs_more_often(count: int, runs: int) -> None:
    fail_to_pass = [target(f"test_{number}") for number in range(count)]
    assert len(plan_of(*fail_to_pass, target("test_kept", fail_to_pass=False)).assignments()) == runs


def test_tests_with_two_ids_are_not_a_single_test() -> None:
    assert len(plan_of(target("test_a", ids=("a.py::test_a[0]", "a.py::test_a[1]"))).assignments()) == 2


@pytest.mark.req("G-01")
def test_inverted_conditions_do_not_count_as_covered() -> None:
    plan = plan_of(target("test_a"), target("test_b", 1, kind="condition"), target("test_c", kind="exception"))
    assert plan.covered(["a.py::test_a", "a.py::test_b", "a.py::test_d"]) == 1
