"""Map opaque ids to real ids: positions only where a decoy changed the parameters."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentbench.acceptance.checks.pytest.item_ids import CollectedItem, IdMap, function_id, ids_by_position, opaque_id

pytestmark = pytest.mark.component

FUNCTION = "t.py::TestA::test_x"
REAL = (f"{FUNCTION}[1-2]", f"{FUNCTION}[2-4]", f"{FUNCTION}[3-6]")


@pytest.mark.parametrize(
    "test, function",
    [
        ("t.py::test_x", "t.py::test_x"),
        ("t.py::test_x[a::b]", "t.py::test_x"),
        ("t.py::TestA::test_x[[x]]", "t.py::TestA::test_x"),
        ("a[1]/t.py::test_x[2]", "a[1]/t.py::test_x"),
        ("a[1]/t.py", "a[1]/t.py"),
    ],
)
def test_function_id_has_no_parameters(test: str, function: str) -> None:
    assert function_id(test) == function


def test_altered_test_is_mapped_by_its_position() -> None:
    ids = IdMap({FUNCTION: REAL}, frozenset({REAL[1]}))
    assert ids.real_id(f"{FUNCTION}[#1]", f"{FUNCTION}[2-5]") == REAL[1]


def test_unaltered_tests_keep_the_ids_that_pytest_gave_them() -> None:
    """Otherwise code that repeats an easy row in place of a hard one would get the result of the hard one."""
    ids = IdMap({FUNCTION: REAL}, frozenset({REAL[1]}))
    assert ids.real_id(f"{FUNCTION}[#2]", f"{FUNCTION}[1-20]") == f"{FUNCTION}[1-20]"
    assert IdMap().real_id(f"{FUNCTION}[#2]", REAL[2]) == REAL[2]


@pytest.mark.parametrize("position", ["#3", "#-1", "#1x", "#٣", "1", "#01", "#" + "9" * 5000, ""])
def test_unknown_positions_are_not_mapped(position: str) -> None:
    ids = IdMap({FUNCTION: REAL}, frozenset(REAL))
    assert ids.real_id(f"{FUNCTION}[{position}]", "given") == "given"
    assert ids.real_id(FUNCTION, FUNCTION) == FUNCTION


def test_position_counts_only_with_the_id_that_the_reference_has_there() -> None:
    """Otherwise code that repeats an easy row in place of a hard one would get the result of the hard one."""
    given = {f"{FUNCTION}[#0]": REAL[0], f"{FUNCTION}[#1]": f"{FUNCTION}[2-5]"}
    ids = IdMap({FUNCTION: REAL}, frozenset(REAL), given)
    assert ids.real_id(f"{FUNCTION}[#1]", f"{FUNCTION}[2-5]") == REAL[1]
    assert ids.real_id(f"{FUNCTION}[#1]", REAL[1]) == f"{FUNCTION}[#1]"
    assert ids.real_id(f"{FUNCTION}[#0]", f"{FUNCTION}[2-5]") == f"{FUNCTION}[#0]"
    assert ids.real_id(f"{FUNCTION}[#2]", REAL[2]) == f"{FUNCTION}[#2]"


def test_deselected_tests_leave_their_positions_empty() -> None:
    items = [CollectedItem(REAL[at], opaque_id(FUNCTION, at), REAL[at]) for at in (2, 0)]
    plain = CollectedItem("t.py::test_y", "t.py::test_y", "t.py::test_y")
    real_ids = ids_by_position([*items, plain], {FUNCTION, "t.py::test_y"})
    assert real_ids == {FUNCTION: (REAL[0], "", REAL[2])}
    ids = IdMap(real_ids, frozenset({"", *REAL}))
    assert ids.real_id(opaque_id(FUNCTION, 2), "x") == REAL[2]
    assert ids.real_id(opaque_id(FUNCTION, 1), "x") == "x"


def test_selection_contains_no_parameters() -> None:
    ids = IdMap({FUNCTION: REAL})
    assert ids.selection(["t.py::test_y[5]", "t.py::test_y[6]", REAL[2], "t.py::test_z", f"{FUNCTION}[gone]"]) == (
        "t.py::test_y",
        f"{FUNCTION}[#2]",
        "t.py::test_z",
        FUNCTION,
    )


@given(st.text(), st.integers(min_value=0, max_value=20))
def test_opaque_id_belongs_to_its_function(test: str, position: int) -> None:
    function = function_id(f"t.py::{test}")
    assert function_id(opaque_id(function, position)) == function
