"""Tests run under opaque ids in the sandbox and are reported under their real ids."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from agentbench.acceptance.decoys.decoy_check import NO_REFERENCE
from agentbench.acceptance.grade import grade
from agentbench.acceptance.grading_context import CheckOutcome
from agentbench.core.reasons import Outcome
from tests.acceptance.toy import FAIL_TO_PASS, FIXED, HIDDEN, UNIT, Changes, TaskFactory, patch_of

pytestmark = pytest.mark.component

FIX: Changes = {"src/toy/core.py": FIXED}
OPAQUE = {
    "tests/opaque/conftest.py": """\
        import pytest


        @pytest.fixture(params=[[1, 2], [5, 6]], ids=["secret-1.5", "secret-5.5"])
        def pair(request):
            return request.param


        def pytest_collection_modifyitems(items):
            items.reverse()
        """,
    "tests/opaque/test_rows.py": """\
        import os
        import unittest

        import pytest

        from toy import median

        ROWS = [([1, 2, 3, 4], 2.5), ([2, 3], 2.5), ([4, 5], 4.5)]


        def check_names(request):
            item = getattr(request, "no" + "de")
            names = [os.environ["PYTEST_CURRENT" + "_TEST"], repr(item), getattr(item, "call" + "spec").id]
            names += [*item.keywords, *item.location, *item.listnames()]
            names += [getattr(each, "node" + "id") for each in request.session.items]
            assert "secret" not in " ".join(map(str, names))
            assert "dropped" not in " ".join(map(str, names))


        @pytest.mark.parametrize("values, expected", ROWS, ids=["dropped", "secret-2.5", "secret-4.5"])
        def test_rows(request, values, expected):
            check_names(request)
            assert repr(getattr(request, "no" + "de")) == f"<Function test_rows[#{ROWS.index((values, expected))}]>"
            assert median(values) == expected


        @pytest.mark.parametrize("shift", [0, 10], ids=["secret-0", "secret-10"])
        @pytest.mark.parametrize("values, expected", [pytest.param([1, 2], 1.5, id="secret::[1.5]")])
        def test_stacked(request, pair, values, expected, shift):
            check_names(request)
            assert median([value + shift for value in values]) == expected + shift


        @pytest.mark.parametrize("expected", [1.5], ids=["secret"])
        class TestClass:
            def test_method(self, request, expected):
                check_names(request)
                assert median([1, 2]) == expected


        class TestUnit(unittest.TestCase):
            def test_unit(self):
                self.assertEqual(median([1, 2]), 1.5)
        """,
    "tests/opaque/example.txt": """\
        >>> from toy import median
        >>> median([1, 2])
        1.5
        """,
}
OPAQUE_IDS = (
    "tests/opaque/test_rows.py::test_rows[secret-2.5]",
    "tests/opaque/test_rows.py::test_rows[secret-4.5]",
    "tests/opaque/test_rows.py::test_stacked[secret-1.5-secret::[1.5]-secret-0]",
    "tests/opaque/test_rows.py::test_stacked[secret-1.5-secret::[1.5]-secret-10]",
    "tests/opaque/test_rows.py::test_stacked[secret-5.5-secret::[1.5]-secret-0]",
    "tests/opaque/test_rows.py::test_stacked[secret-5.5-secret::[1.5]-secret-10]",
    "tests/opaque/test_rows.py::TestClass::test_method[secret]",
    "tests/opaque/test_rows.py::TestUnit::test_unit",
    "tests/opaque/example.txt::example.txt",
)
NAMED = {
    "tests/test_names.py": """\
        import os

        import pytest

        from toy import median

        EXPECTED = {"test_by_name[low]": 1.5, "test_by_name[high]": 8.5}


        @pytest.mark.parametrize("values", [[1, 2], [8, 9]], ids=["low", "high"])
        def test_by_name(request, values):
            assert os.environ["PYTEST_CURRENT_TEST"] == f"tests/test_names.py::{request.node.name} (call)"
            assert median(values) == EXPECTED[request.node.name]
        """
}
NAMED_IDS = ("tests/test_names.py::test_by_name[low]", "tests/test_names.py::test_by_name[high]")


def graded(
    tasks: TaskFactory, folder: Path, hidden: dict[str, str], *, check: Mapping[str, object], **more: object
) -> CheckOutcome:
    context = tasks.context(folder, hidden=hidden, oracle={"checks": [{**UNIT, **check}]}, **more)  # type: ignore[arg-type]
    (result,) = grade(patch_of(context, FIX), context).checks
    return result.decided


def test_tests_do_not_see_ids_with_parameters(tasks: TaskFactory, tmp_path: Path) -> None:
    """Rows that the command deselects by name, plugins that reorder tests, and items of other types change nothing."""
    command = "python -m pytest -q -k 'not dropped' '--doctest-glob=*.txt'"
    check = {"command": command, "fail_to_pass": list(OPAQUE_IDS), "pass_to_pass": []}
    decided = graded(tasks, tmp_path, OPAQUE, check=check)
    assert (decided.outcome, decided.why) == (Outcome.PASS, f"9 required tests passed; {NO_REFERENCE}"), (
        decided.diagnostics
    )
    assert {test for test in decided.tests if "opaque" in test} == set(OPAQUE_IDS)


@pytest.mark.parametrize("reference", [False, True], ids=["text decides", "reference decides"])
def test_tests_that_use_their_names_keep_them(tasks: TaskFactory, tmp_path: Path, *, reference: bool) -> None:
    more: dict[str, object] = {}
    if reference:
        patch = patch_of(tasks.context(tmp_path / "bare"), FIX).decode()
        more = {"files": {"reference.patch": patch}, "reference": "reference.patch"}
    check = {"fail_to_pass": [*NAMED_IDS, *FAIL_TO_PASS], "pass_to_pass": []}
    decided = graded(tasks, tmp_path / "task", {**HIDDEN, **NAMED}, check=check, **more)
    assert decided.outcome is Outcome.PASS, (decided.why, decided.diagnostics)


def test_only_files_of_required_tests_are_collected(tasks: TaskFactory, tmp_path: Path) -> None:
    required: dict[str, object] = {"pass_to_pass": []}
    narrowed = graded(tasks, tmp_path / "narrowed", HIDDEN, check=required)
    # An option that might change what paths mean keeps the call as it is.
    command = "python -m pytest -q --ignore=tests/other"
    whole = graded(tasks, tmp_path / "whole", HIDDEN, check={**required, "command": command})
    assert set(narrowed.tests) == set(FAIL_TO_PASS)
    assert {test: whole.tests[test] for test in narrowed.tests} == narrowed.tests
    assert len(whole.tests) > len(narrowed.tests)
    assert (narrowed.outcome, narrowed.why, narrowed.f2p_passed) == (whole.outcome, whole.why, whole.f2p_passed)
