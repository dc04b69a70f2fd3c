"""Plans: each test is real in some run, and nothing reveals in which."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentbench.acceptance.decoys.assignments import (
    FEW_TESTS,
    MAX_ALIKE_SEC,
    DecoyPlan,
    DecoyTarget,
    draw_runs,
    without_recognisable,
)
from agentbench.acceptance.decoys.mutation import Kind, Mutation

pytestmark = pytest.mark.component

REAL = -1
FAST, SLOW = MAX_ALIKE_SEC, MAX_ALIKE_SEC + 1


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


def plan_of(*targets: DecoyTarget, reference_sec: float = FAST) -> DecoyPlan:
    drawn = without_recognisable(targets)
    return DecoyPlan(targets=drawn, runs=draw_runs(drawn, reference_sec))


drawn_targets = st.builds(
    lambda name, values, fail_to_pass: target(name, values, fail_to_pass=fail_to_pass),
    st.from_regex(r"test_[a-z]{1,6}", fullmatch=True),
    st.integers(1, 2),
    st.booleans(),
)


drawn_plans = st.lists(drawn_targets, min_size=1, max_size=8, unique_by=lambda drawn: drawn.place)
durations = st.sampled_from([FAST, SLOW])


@pytest.mark.req("G-01")
@given(drawn_plans, durations)
def test_each_test_is_real_and_a_decoy_somewhere(drawn: list[DecoyTarget], reference_sec: float) -> None:
    plan = plan_of(*drawn, reference_sec=reference_sec)
    assignments = plan.assignments()
    assert plan == DecoyPlan.model_validate_json(plan.model_dump_json())
    assert assignments[0].only == ()
    assert all(assignment.only == (() if plan.alike else plan.ids) for assignment in assignments[1:])
    for one in plan.targets:
        versions = Counter(assignment.decoys.get(one, REAL) for assignment in assignments)
        assert 0 < versions[REAL] < len(assignments)
        assert set(versions) == {REAL, 0}
        assert {assignment.decoys.get(one, REAL) for assignment in assignments[-2:]} == {REAL, 0}


@pytest.mark.req("G-01")
@given(drawn_plans, durations)
def test_a_recognisable_run_has_a_decoy_of_a_fail_to_pass_test(drawn: list[DecoyTarget], reference_sec: float) -> None:
    """Code that works in one run only would pass a task whose real tests are all in that run."""
    required = {one for one in drawn if one.fail_to_pass}
    plan = plan_of(*drawn, reference_sec=reference_sec)
    first, *others = ({one for one in required if one in run.decoys} for run in plan.assignments())
    if len(required) > FEW_TESTS:
        assert all(decoys and decoys != required for decoys in (first, *others))


@pytest.mark.req("G-01")
@pytest.mark.parametrize("count, reference_sec", [(1, FAST), (1, SLOW), (4, FAST)])
def test_real_tests_are_equally_likely_in_runs_that_look_alike(count: int, reference_sec: float) -> None:
    targets = [target(f"test_{number}") for number in range(count)]
    drawn = [plan_of(*targets, reference_sec=reference_sec).assignments()[-2:] for _ in range(400)]
    for run in range(2):
        real = sum(targets[0] not in assignments[run].decoys for assignments in drawn)
        assert 140 < real < 260  # six standard deviations


@pytest.mark.req("G-01")
def test_a_recognisable_run_of_slow_tests_tells_nothing_about_their_values() -> None:
    """Code can recognise the first of three runs and tell the others which values the tests have there."""
    plans = [plan_of(target("test_a"), reference_sec=SLOW) for _ in range(400)]
    real = sum(not plan.assignments()[0].decoys for plan in plans)
    assert 140 < real < 260  # six standard deviations


@pytest.mark.req("G-01")
@pytest.mark.parametrize("count", [1, 2, FEW_TESTS])
def test_the_best_guess_of_few_tests_is_right_as_rarely_as_documented(count: int) -> None:
    """Code under test sees one run and must name its real tests; in the other run, the rest. It cannot tell them apart.

    For a draw S it is right if it answers S in one run and the complement in the other. The best answers are a set and
    its complement with equal chances, so one of 2^(n+1) is right, if every draw is equally likely.
    """
    targets = [target(f"test_{number}") for number in range(count)]
    draws = Counter(
        tuple(one in plan_of(*targets).assignments()[0].decoys for one in targets) for _ in range(200 * 2**count)
    )
    assert len(draws) == 2**count
    assert all(100 < drawn < 300 for drawn in draws.values())  # seven standard deviations


@pytest.mark.req("G-01")
@pytest.mark.parametrize(
    "count, reference_sec, runs",
    [(0, SLOW, 2), (1, SLOW, 3), (FEW_TESTS, SLOW, 3), (FEW_TESTS + 1, SLOW, 2), (1, FAST, 2), (FEW_TESTS, FAST, 2)],
)
def test_few_tests_run_more_often_only_if_they_take_long(count: int, reference_sec: float, runs: int) -> None:
    fail_to_pass = [target(f"test_{number}") for number in range(count)]
    plan = plan_of(*fail_to_pass, target("test_kept", fail_to_pass=False), reference_sec=reference_sec)
    assert len(plan.assignments()) == runs
    assert plan.alike == (0 < count <= FEW_TESTS and runs == 2)


@pytest.mark.req("G-01")
@pytest.mark.parametrize("count, kept", [(0, 2), (1, 0), (FEW_TESTS, 0), (FEW_TESTS + 1, 2)])
def test_few_fail_to_pass_tests_have_no_decoys_of_other_tests_beside_them(count: int, kept: int) -> None:
    """Code knows the results of pass-to-pass tests, and their decoys would tell it in which run it is."""
    fail_to_pass = [target(f"test_{number}") for number in range(count)]
    others = [target(f"test_kept_{number}", fail_to_pass=False) for number in range(2)]
    assert len(plan_of(*fail_to_pass, *others).targets) == count + kept


def test_tests_that_share_a_decoy_count_once() -> None:
    ids = tuple(f"a.py::test_a[{number}]" for number in range(9))
    assert plan_of(target("test_a", ids=ids)).alike


@pytest.mark.req("G-01")
def test_inverted_conditions_do_not_count_as_covered() -> None:
    plan = plan_of(target("test_a"), target("test_b", 1, kind="condition"), target("test_c", kind="exception"))
    assert plan.covered(["a.py::test_a", "a.py::test_b", "a.py::test_d"]) == 1
