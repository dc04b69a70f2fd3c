"""Tasks with one digest are made ready once, and are tasks of their own all the same: id and reference are not part of it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.run.conftest import Ab
from tests.run.tasks import PATCH, make_suite

pytestmark = pytest.mark.req("C-15", "R-13")


@pytest.fixture
def tasks(ab: Ab, tmp_path: Path) -> Path:
    folder = make_suite(tmp_path / "alike", "one", "two")
    (folder / "tiny/two/reference.patch").write_text(PATCH.replace("+42", "+43"))
    return folder


def test_each_is_validated_by_its_own_reference_and_under_its_own_name(ab: Ab, tasks: Path) -> None:
    done = ab("validate-tasks", "--suite", "tiny", "--tasks-dir", tasks, "--json")
    assert [(one["task_id"], one["valid"]) for one in done.json["tasks"]] == [("one", True), ("two", False)]
    assert done.code == 1


def test_verdicts_are_told_as_they_come(ab: Ab, tasks: Path) -> None:
    """What is known stays on the terminal when the rest is broken off."""
    told = ab("validate-tasks", "--suite", "tiny", "--tasks-dir", tasks).stderr
    assert "one: valid (1 of 2)" in told
    assert "two: NOT VALID: " in told
    assert told.rstrip().endswith("(2 of 2)")


def test_each_is_solved_by_its_own_reference(ab: Ab, tasks: Path) -> None:
    done = ab("run", "--suite", "tiny", "--tasks-dir", tasks, "--agent", "reference", "--json")
    assert {one["task_id"]: one["result"]["passed"] for one in done.json["attempts"]} == {"one": True, "two": False}
