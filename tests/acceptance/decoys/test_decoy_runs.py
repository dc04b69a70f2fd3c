"""Which run asks for what: each test for the truth somewhere, and nothing shows where."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentbench.acceptance.decoys.decoy_runs import DecoyPlan, DecoyTarget, draw_plan

TRUE = -1
functions = st.builds(
    DecoyTarget,
    file=st.just("tests/test_a.py"),
    place=st.tuples(st.from_regex(r"test_[a-z]{1,6}", fullmatch=True)),
    ids=st.just(("x",)),
    mends=st.booleans(),
    values=st.integers(1, 3),
)


@pytest.mark.req("G-01")
@given(st.lists(functions, min_size=1, max_size=8, unique_by=lambda one: one.place))
def test_each_test_asks_for_the_truth_and_for_something_false(found: list[DecoyTarget]) -> None:
    twins = draw_plan(found, "s")
    asked = twins.assignments()
    assert twins == DecoyPlan.model_validate_json(twins.model_dump_json())
    assert asked[0].only == ()
    assert all(one.only == twins.ids for one in asked[1:])
    for function in found:
        texts = Counter(one.false.get(function, TRUE) for one in asked)
        assert 0 < texts[TRUE] < len(asked)
        assert all(text < function.values for text in texts)
        if function.values >= len(asked) - 1:
            assert set(texts.values()) == {1}


@pytest.mark.req("G-01")
def test_the_truth_is_as_likely_in_every_run() -> None:
    number = DecoyTarget(file="a.py", place=("test_a",), ids=("a.py::test_a",), values=3)
    condition = DecoyTarget(file="a.py", place=("test_b",), ids=("a.py::test_b",), values=1, mends=False)
    runs = [draw_plan((number, condition), "s").assignments() for _ in range(400)]
    assert {len(asked) for asked in runs} == {4}
    for function, expected in ((number, 100), (condition, 200)):
        for at in range(4):
            true = sum(function not in asked[at].false for asked in runs)
            assert expected - 60 < true < expected + 60  # six times the spread


@pytest.mark.req("G-01")
@pytest.mark.parametrize("mending, runs", [(0, 2), (1, 4), (2, 3), (3, 2), (9, 2)])
def test_few_tests_are_run_more_often(mending: int, runs: int) -> None:
    found = [DecoyTarget(file="a.py", place=(f"test_{n}",), ids=(f"a.py::test_{n}",), values=3) for n in range(mending)]
    kept = DecoyTarget(file="a.py", place=("test_kept",), ids=("a.py::test_kept",), mends=False)
    assert len(draw_plan((*found, kept), "s").assignments()) == runs
