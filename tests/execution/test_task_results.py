"""Results of validation and audit, kept for the task as it is."""

from __future__ import annotations

from pathlib import Path

import pytest

from agentbench.acceptance.validation import TaskValidation
from agentbench.contract.load import load_task
from agentbench.core.errors import Interrupted
from agentbench.execution import validation
from agentbench.execution.lab import Lab
from agentbench.execution.task_results import keep_result, kept_result
from tests.execution.tasks import make_task

pytestmark = pytest.mark.component


def test_result_is_kept_until_the_task_changes(tmp_path: Path) -> None:
    folder = make_task(tmp_path / "task")
    task = load_task(folder / "task.yaml")
    assert kept_result(tmp_path, task, "validation") is None
    keep_result(tmp_path, task, "validation", {"valid": True})
    kept = kept_result(tmp_path, task, "validation")
    assert kept is not None
    assert kept["valid"] is True
    assert kept_result(tmp_path, task, "audit") is None
    assert task.reference_file is not None
    task.reference_file.write_text(task.reference_file.read_text() + "\n# changed\n")
    assert kept_result(tmp_path, load_task(folder / "task.yaml"), "validation") is None


def test_damaged_result_is_ignored(tmp_path: Path) -> None:
    task = load_task(make_task(tmp_path / "task") / "task.yaml")
    keep_result(tmp_path, task, "audit", {"sound": True})
    (file,) = (tmp_path / "task-results").iterdir()
    file.write_text("[half")
    assert kept_result(tmp_path, task, "audit") is None


def test_result_that_cannot_be_written_is_no_error(tmp_path: Path) -> None:
    task = load_task(make_task(tmp_path / "task") / "task.yaml")
    (tmp_path / "task-results").write_text("a file")
    keep_result(tmp_path, task, "audit", {"sound": True})
    assert kept_result(tmp_path, task, "audit") is None


def test_interrupted_validation_has_no_result(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Sandboxes that Ctrl-C closed look like an invalid task."""
    task = load_task(make_task(tmp_path / "task") / "task.yaml")
    printed: list[str] = []
    kept: list[TaskValidation] = []

    def validate(*_: object) -> TaskValidation:
        lab.cancel()
        return TaskValidation(task.id, False, "error", "none", (), "the sandbox backend is closed")

    monkeypatch.setattr(validation, "_validate", validate)
    with Lab(state=tmp_path / "state") as lab, pytest.raises(Interrupted):
        validation.validate_suite([task], lab, repeats=1, workers=1, report=printed.append, keep=kept.append)
    assert (printed, kept) == ([], [])
    assert kept_result(lab.state, task, "validation") is None
