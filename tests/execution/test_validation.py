"""Tasks with the same digest are prepared once and stay separate: id and reference are not part of the digest."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.execution.conftest import Ab
from tests.execution.tasks import PATCH, make_suite

pytestmark = [pytest.mark.req("C-15", "R-13"), pytest.mark.end_to_end]


@pytest.fixture
def tasks(ab: Ab, tmp_path: Path) -> Path:
    folder = make_suite(tmp_path / "alike", "one", "two")
    (folder / "tiny/two/reference.patch").write_text(PATCH.replace("+42", "+43"))
    return folder


def test_tasks_with_one_digest_are_validated_separately(ab: Ab, tasks: Path) -> None:
    done = ab("validate-tasks", "--suite", "tiny", "--tasks-dir", tasks, "--json")
    assert [(task["task_id"], task["valid"]) for task in done.json["tasks"]] == [("one", True), ("two", False)]
    assert done.code == 1


def test_validation_reports_each_task_at_once(ab: Ab, tasks: Path) -> None:
    """An interrupted validation has printed what it found."""
    stderr = ab("validate-tasks", "--suite", "tiny", "--tasks-dir", tasks).stderr
    assert "one: valid (1 of 2)" in stderr
    assert "two: NOT VALID: " in stderr
    assert stderr.rstrip().endswith("(2 of 2)")


def test_tasks_with_one_digest_use_their_own_reference(ab: Ab, tasks: Path) -> None:
    done = ab("run", "--suite", "tiny", "--tasks-dir", tasks, "--agent", "reference", "--json")
    assert {record["task_id"]: record["result"]["passed"] for record in done.json["attempts"]} == {
        "one": True,
        "two": False,
    }


@pytest.mark.parametrize("command", ["validate-tasks", "run --agent noop --dry-run"])
def test_tasks_that_cannot_run_here_are_named_before_anything_runs(ab: Ab, tmp_path: Path, command: str) -> None:
    folder = make_suite(tmp_path / "here", "one", "two")
    two = folder / "tiny/two/task.yaml"
    two.write_text(two.read_text().replace("environment: {", 'environment: {python: "3.99", '))
    done = ab(*command.split(), "--suite", "tiny", "--tasks-dir", folder)
    assert "task two: no Python 3.99 for sandboxes on this machine" in done.stderr
    assert "one:" not in done.stderr
    assert done.code == 3
