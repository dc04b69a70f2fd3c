"""Translating unittest ids to pytest ids."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import pytest

from agentbench.authoring.formats.row_ids import parse_unittest_id, pytest_ids
from agentbench.authoring.formats.swebench import Instance, export_task, import_instance
from agentbench.authoring.formats.swebench_tests import ROW_NAME
from agentbench.contract.load import load_task
from agentbench.core.errors import InputError
from agentbench.execution.lab import Lab
from tests.authoring.conftest import put
from tests.workspace.reference_git import git

pytestmark = [pytest.mark.req("C-18"), pytest.mark.component]

CASE = "import unittest\n\n\nclass Case(unittest.TestCase):\n    class Inner(unittest.TestCase):\n        pass\n"
TREE = {
    "tests/test_mod.py": CASE,
    "tests/unit/__init__.py": CASE.replace("Case(", "Unit("),
    "one/test_same.py": CASE,
    "two/test_same.py": CASE,
    "lib/test/test_deep.py": CASE,
    "tests/test_torn.py": "class (:\n",
}


@pytest.mark.parametrize(
    "test, expected",
    [
        ("test_a (tests.test_mod.Case)", "tests/test_mod.py::Case::test_a"),
        ("test_a (tests.test_mod.Case.test_a)", "tests/test_mod.py::Case::test_a"),
        ("test_a (tests.test_mod.Case.Inner)", "tests/test_mod.py::Case::Inner::test_a"),
        ("test_a (tests.unit.Unit)", "tests/unit/__init__.py::Unit::test_a"),
        ("test_a (test_mod.Case)", "tests/test_mod.py::Case::test_a"),
        ("test_a (test.test_deep.Case)", "lib/test/test_deep.py::Case::test_a"),
        ("test_a (one.test_same.Case)", "one/test_same.py::Case::test_a"),
    ],
)
def test_unittest_id_becomes_a_pytest_id(test: str, expected: str) -> None:
    assert pytest_ids([test], TREE, TREE.get, "FAIL_TO_PASS") == {expected: test}


@pytest.mark.parametrize(
    "test",
    [
        "test_a (tests.test_mod.Other)",
        "test_a (tests.test_gone.Case)",
        "test_a (test_same.Case)",
        "test_a (tests.test_torn.Case)",
        "test_a (Case)",
        "A sentence.",
        "tests/test_mod.py::Case::test_a",
    ],
)
def test_missing_or_ambiguous_class_is_rejected(test: str) -> None:
    with pytest.raises(InputError, match=r"^PASS_TO_PASS: ") as caught:
        pytest_ids([test], TREE, TREE.get, "PASS_TO_PASS")
    assert "file::Class::test" in caught.value.remedy


def test_other_text_is_not_a_unittest_id() -> None:
    assert parse_unittest_id("test_a (b.C) and more") is None
    assert parse_unittest_id("test_a") is None


def test_unittest_row_survives_import_and_export(tmp_path: Path, repo: Path, lab: Lab) -> None:
    tests = (
        "import unittest\nfrom calc import half\n\n\nclass Halves(unittest.TestCase):\n"
        "    def test_odd(self):\n        assert half(3) == 1.5\n\n    def test_even(self):\n        assert half(4) == 2\n"
    )
    base = git(repo, "rev-parse", "HEAD").decode().strip()
    fix = put(repo, {"calc.py": "def half(value):\n    return value / 2\n", "tests/test_halves.py": tests}, "Fix")
    row = Instance(
        id="me__calc-2",
        repo="me/calc",
        base_commit=base,
        patch=git(repo, "diff", base, fix, "--", "calc.py"),
        test_patch=git(repo, "diff", base, fix, "--", "tests"),
        problem="half(3) is 1\n",
        fail_to_pass=("test_odd (tests.test_halves.Halves)",),
        pass_to_pass=("test_even (tests.test_halves.Halves.test_even)",),
    )
    folder = import_instance(row, str(repo), tmp_path / "tasks/swe", lab)
    task = load_task(folder)
    (check,) = task.checks
    assert check.parser == "pytest"
    assert check.fail_to_pass == ("tests/test_halves.py::Halves::test_odd",)
    assert (check.command or "").endswith(" 'tests/test_halves.py'")
    back = export_task(task, lab)
    assert json.loads(str(back["FAIL_TO_PASS"])) == list(row.fail_to_pass)
    assert json.loads(str(back["PASS_TO_PASS"])) == list(row.pass_to_pass)
    assert back["repo"] == row.repo
    (folder / ROW_NAME).write_text("[]")
    with pytest.raises(InputError, match=rf"{ROW_NAME}: cannot read"):
        export_task(task, lab)
    mixed = dataclasses.replace(row, id="me__calc-3", pass_to_pass=("A sentence.",))
    with pytest.raises(InputError, match=r"PASS_TO_PASS: 'A sentence\.' is not a unittest id"):
        import_instance(mixed, str(repo), tmp_path / "tasks/swe", lab)
