"""The flake screen: its rate and the quarantine suite."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner

from agentbench.acceptance.validation import TaskValidation
from agentbench.authoring.harvest.flake_screen import quarantine_task, summary
from agentbench.cli.task import command
from agentbench.contract.suite import load_suite
from agentbench.core.errors import InputError

pytestmark = [pytest.mark.req("C-16"), pytest.mark.component]

TASK = {
    "schema_version": 1,
    "id": "lucky",
    "suite": "mine",
    "statement": "x",
    "repo": {"path": "repo/"},
    "oracle": {"checks": [{"id": "unit", "layer": "unit", "command": "false", "parser": "exit_code"}]},
}
FLAKY = TaskValidation("lucky", False, "fail", "pass", ("unit: t.py::test_a[b c]",), "flaky: unit: t.py::test_a[b c]")
GOOD = TaskValidation("good", True, "fail", "pass", (), "")
BROKEN = TaskValidation("broken", False, "pass", "pass", (), "the baseline does not fail")


def suite(tmp_path: Path) -> Path:
    folder = tmp_path / "mine/lucky"
    (folder / "repo").mkdir(parents=True)
    (folder / "repo/a.txt").write_text("a")
    (folder / "task.yaml").write_text(yaml.safe_dump(TASK, sort_keys=False))
    return folder


def test_flake_rate_counts_tasks_with_different_outcomes() -> None:
    report = summary([FLAKY, GOOD, BROKEN, GOOD], 5)
    assert report["flake_rate"] == 0.25
    assert report["flaky"] == {"lucky": ["unit: t.py::test_a[b c]"]}
    assert report["not_valid"] == {"broken": "the baseline does not fail"}
    assert "1 flaky (25.0%), 1 invalid" in str(report["text"])
    assert summary([], 5)["flake_rate"] == 0.0


def test_quarantine_moves_the_task_and_records_the_reason(tmp_path: Path) -> None:
    folder = suite(tmp_path)
    place = quarantine_task(folder, tmp_path / "mine-quarantine", FLAKY)
    assert not folder.exists()
    assert "t.py::test_a[b c]" in (place / "notes.md").read_text()
    (task,) = load_suite("mine-quarantine", tmp_path).tasks
    assert (task.id, task.task.suite) == ("lucky", "mine-quarantine")
    with pytest.raises(InputError, match="already exists"):
        quarantine_task(suite(tmp_path), tmp_path / "mine-quarantine", FLAKY)


@pytest.mark.parametrize("more, code", [((), 1), (("--quarantine",), 0)])
def test_screen_command_exit_codes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, more: tuple[str, ...], code: int
) -> None:
    suite(tmp_path)
    asked: list[int] = []

    def screened(*_given: object, repeats: int, **_more: object) -> list[TaskValidation]:
        asked.append(repeats)
        return [FLAKY]

    monkeypatch.setattr("agentbench.execution.validation.validate_suite", screened)
    monkeypatch.setenv("AB_STATE", str(tmp_path / "state"))
    done = CliRunner().invoke(command, ["screen", "--suite", "mine", "--tasks-dir", str(tmp_path), "--json", *more])
    assert (done.exit_code, asked) == (code, [5])
    assert json.loads(done.stdout)["flake_rate"] == 1.0
    assert (tmp_path / "mine-quarantine/lucky").exists() == bool(more)
    assert (tmp_path / "mine/lucky").exists() != bool(more)
