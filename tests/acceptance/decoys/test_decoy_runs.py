"""Plans: each test is real in some run, and nothing reveals in which."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentbench.acceptance.decoys.decoy_runs import DecoyPlan, DecoyTarget, draw_plan

pytestmark = pytest.mark.component

REAL = -1
targets = st.builds(
    DecoyTarget,
    file=st.just("tests/test_a.py"),
    place=st.tuples(st.from_regex(r"test_[a-z]{1,6}", fullmatch=True)),
    ids=st.just(("x",)),
    fail_to_pass=st.booleans(),
    values=st.integers(1, 3),
)


@pytest.mark.req("G-01")
@given(st.lists(targets, min_size=1, max_size=8, unique_by=lambda assignment: assignment.place))
def test_each_test_is_real_and_a_decoy_somewhere(drawn: list[DecoyTarget]) -> None:
    plan = draw_plan(drawn, "s")
    assignments = plan.assignments()
    assert plan == DecoyPlan.model_validate_json(plan.model_dump_json())
    assert assignments[0].only == ()
    assert all(assignment.only == plan.ids for assignment in assignments[1:])
    for target in drawn:
        versions = Counter(assignment.decoys.get(target, REAL) for assignment in assignments)
        assert 0 < versions[REAL] < len(assignments)
        assert all(version < target.values for version in versions)
        if target.values >= len(assignments) - 1:
            assert set(versions.values()) == {1}


@pytest.mark.req("G-01")
def test_real_tests_are_equally_likely_in_every_run() -> None:
    number = DecoyTarget(file="a.py", place=("test_a",), ids=("a.py::test_a",), values=3)
    condition = DecoyTarget(file="a.py", place=("test_b",), ids=("a.py::test_b",), values=1, fail_to_pass=False)
    runs = [draw_plan((number, condition), "s").assignments() for _ in range(400)]
    assert {len(assignments) for assignments in runs} == {4}
    for target, expected in ((number, 100), (condition, 200)):
        for run in range(4):
            real = sum(target not in assignments[run].decoys for assignments in runs)
            assert expected - 60 < real < expected + 60  # six standard deviations


@pytest.mark.req("G-01")
@pytest.mark.parametrize("count, runs", [(0, 2), (1, 4), (2, 3), (3, 2), (9, 2)])
def test_few_tests_are_run_more_often(count: int, runs: int) -> None:
    fail_to_pass = [
        DecoyTarget(file="a.py", place=(f"test_{n}",), ids=(f"a.py::test_{n}",), values=3) for n in range(count)
    ]
    pass_to_pass = DecoyTarget(file="a.py", place=("test_kept",), ids=("a.py::test_kept",), fail_to_pass=False)
    assert len(draw_plan((*fail_to_pass, pass_to_pass), "s").assignments()) == runs
