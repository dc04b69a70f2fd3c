"""Plans: each test is real in some run, and nothing reveals in which."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentbench.acceptance.decoys.assignments import FEW_TESTS, DecoyPlan, DecoyTarget, draw_runs
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
@given(st.lists(drawn_targets, min_size=1, max_size=8, unique_by=lambda drawn: drawn.place))
def test_no_run_has_only_real_fail_to_pass_tests(drawn: list[DecoyTarget]) -> None:
    """Code that works in one run only would pass a task whose real tests are all in that run."""
    required = {one for one in drawn if one.fail_to_pass}
    first, *others = ({one for one in required if one in run.decoys} for run in plan_of(*drawn).assignments())
    if len(required) > FEW_TESTS:
        assert all(decoys and decoys != required for decoys in (first, *others))
    else:
        assert first == required


@pytest.mark.req("G-01")
@pytest.mark.parametrize("count", [1, 4])
def test_real_tests_are_equally_likely_in_runs_that_look_alike(count: int) -> None:
    targets = [target(f"test_{number}") for number in range(count)]
    drawn = [plan_of(*targets).assignments()[-2:] for _ in range(400)]
    for run in range(2):
        real = sum(targets[0] not in assignments[run].decoys for assignments in drawn)
        assert 140 < real < 260  # six standard deviations


@pytest.mark.req("G-01")
@pytest.mark.parametrize("count, runs", [(0, 2), (1, 3), (FEW_TESTS, 3), (FEW_TESTS + 1, 2), (9, 2)])
def test_few_tests_run_more_often(count: int, runs: int) -> None:
    fail_to_pass = [target(f"test_{number}") for number in range(count)]
    assert len(plan_of(*fail_to_pass, target("test_kept", fail_to_pass=False)).assignments()) == runs


def test_tests_that_share_a_decoy_count_once() -> None:
    ids = tuple(f"a.py::test_a[{number}]" for number in range(9))
    assert len(plan_of(target("test_a", ids=ids)).assignments()) == 3


@pytest.mark.req("G-01")
def test_inverted_conditions_do_not_count_as_covered() -> None:
    plan = plan_of(target("test_a"), target("test_b", 1, kind="condition"), target("test_c", kind="exception"))
    assert plan.covered(["a.py::test_a", "a.py::test_b", "a.py::test_d"]) == 1
