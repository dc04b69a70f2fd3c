"""`ab suite ls` shows suites with their tasks, strata and what is left to do."""

from __future__ import annotations

import json
from pathlib import Path

from click.testing import CliRunner

from agentbench.authoring.commit.from_commit import APPROVE
from agentbench.authoring.suite_list import list_suites
from agentbench.cli.suite import command
from tests.execution.tasks import make_task


def test_suites_are_listed_with_their_state(tmp_path: Path) -> None:
    make_task(tmp_path / "tiny" / "one", task_id="one", more="strata: {kind: bugfix}\n")
    two = make_task(tmp_path / "tiny" / "two", task_id="two", more="strata: {kind: docs}\n")
    (two / "notes.md").write_text(f"{APPROVE}\n- the statement is only a subject line\n")
    broken = make_task(tmp_path / "tiny" / "broken", text="id: broken\n")
    demo, tiny = list_suites(tmp_path)
    assert (demo.name, demo.valid, demo.problems) == ("demo", demo.tasks, ())
    assert (tiny.tasks, tiny.valid, tiny.locked, tiny.to_approve) == (3, 2, 0, 1)
    assert tiny.strata == {"kind": {"bugfix": 1, "docs": 1}}
    assert str(broken / "task.yaml") in tiny.problems[0]
    text = CliRunner().invoke(command, ["ls", "--tasks-dir", str(tmp_path)]).output
    assert f"tiny: 3 tasks (2 readable, 0 locked, 1 to approve) in {tmp_path / 'tiny'}" in text
    data = json.loads(CliRunner().invoke(command, ["ls", "--tasks-dir", str(tmp_path), "--json"]).output)
    assert [suite["name"] for suite in data["suites"]] == ["demo", "tiny"]


def test_problem_that_tasks_share_is_listed_once(tmp_path: Path) -> None:
    for name in ("one", "two"):
        make_task(tmp_path / "tiny" / name, task_id=name)
    (tmp_path / "tiny" / "scenario.yaml").write_text("scorer: []\n")
    _, tiny = list_suites(tmp_path)
    assert len(tiny.problems) == 1


def test_task_of_another_suite_is_not_valid(tmp_path: Path) -> None:
    make_task(tmp_path / "tiny" / "one", task_id="one")
    make_task(tmp_path / "other" / "two", task_id="two")
    _, other, tiny = list_suites(tmp_path)
    assert (other.valid, tiny.valid) == (0, 1)
    assert "suite: expected other" in other.problems[0]
