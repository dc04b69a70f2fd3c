"""Tasks that `ab task` creates keep the scorers and the judge that their suite had at that time."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.authoring.conftest import FIX, put
from tests.execution.conftest import Ab
from tests.execution.tasks import TASK, make_task
from tests.workspace.reference_git import repository

pytestmark = [pytest.mark.end_to_end, pytest.mark.req("C-12b")]

BEFORE = "scorers: [{name: small, type: max_files_changed, limit: 3}]\njudge: {rubric: kindly}\n"
AFTER = "scorers: [{name: strict, type: max_files_changed, limit: 0}]\njudge: {rubric: harshly}\n"
FROZEN = {"scorers": [{"name": "small", "type": "max_files_changed", "limit": 3}], "judge": {"rubric": "kindly"}}


@pytest.fixture
def suite(tmp_path: Path) -> Path:
    folder = tmp_path / "tasks" / "tiny"
    folder.mkdir(parents=True)
    (folder / "scenario.yaml").write_text(BEFORE)
    return folder


def frozen_in(task: Path) -> Any:
    scenario = yaml.safe_load((task / "task.yaml").read_text())["scenario"]
    return {"scorers": scenario["scorers"], "judge": {"rubric": scenario["judge"]["rubric"]}}


def scorers_of(ab: Ab, task: Path) -> tuple[list[str], str]:
    record = ab.by_command(task, "echo 42 > answer.txt; echo more > other.txt").record
    return [scorer["name"] for scorer in record["scorers"]], record["workspace_verdict"]


def test_new_task_is_scored_as_its_suite_was_when_it_was_created(ab: Ab, suite: Path) -> None:
    task = suite / "made"
    (task / "repo").mkdir(parents=True)
    (task / "repo" / "answer.txt").write_text("41\n")
    created = ab("task", "new", task, "--repo-path", "repo", "--test-command", "grep -qx 42 answer.txt")
    assert created.code == 0, created.stderr
    text = (task / "task.yaml").read_text()
    setup = text[text.index("setup:") : text.index("# The first command")]
    (task / "task.yaml").write_text(text.replace(setup, ""))  # it installs pytest, which this test does not need
    by_hand = make_task(suite / "by-hand", text=TASK.format(id="by-hand"))
    assert frozen_in(task) == FROZEN
    assert scorers_of(ab, task) == scorers_of(ab, by_hand) == (["small"], "PASS")
    (suite / "scenario.yaml").write_text(AFTER)
    assert scorers_of(ab, task) == (["small"], "PASS")
    assert scorers_of(ab, by_hand) == (["strict"], "FAIL")


def test_task_created_without_a_suite_file_has_no_suite_scorers(ab: Ab, suite: Path) -> None:
    (suite / "scenario.yaml").unlink()
    assert ab("task", "new", suite / "made").code == 0
    assert yaml.safe_load((suite / "made" / "task.yaml").read_text())["scenario"] == {"scorers": []}
    (suite / "scenario.yaml").write_text(AFTER)
    assert ab("task", "check", suite / "made").code == 0


def test_invalid_suite_file_is_reported_before_a_task_is_created(ab: Ab, suite: Path) -> None:
    (suite / "scenario.yaml").write_text("scorers: [{name: small, type: no_such_type}]\n")
    refused = ab("task", "new", suite / "made")
    assert (refused.code, "scenario.yaml:1" in refused.stderr) == (2, True), refused.stderr
    assert not (suite / "made").exists()


def test_invalid_frozen_scorer_is_reported_with_its_key(ab: Ab, suite: Path) -> None:
    more = "scenario: {scorers: [{name: small, type: no_such_type}]}\n"
    refused = ab("task", "check", make_task(suite / "bad", more=more))
    assert (refused.code, "scenario.scorers[0].type" in refused.stderr) == (2, True), refused.stderr


def test_locking_keeps_the_frozen_scorers(ab: Ab, suite: Path) -> None:
    more = f"scenario: {json.dumps(FROZEN)}\n"
    task = make_task(suite / "made", more=more)
    (suite / "scenario.yaml").write_text(AFTER)
    assert ab("task", "lock", task).code == 0
    assert json.loads((task / "task.lock.json").read_text())["scenario"]["scorers"][0]["name"] == "small"


def test_locked_tasks_follow_a_later_suite_file_only_if_asked(ab: Ab, suite: Path) -> None:
    (suite / "scenario.yaml").unlink()
    frozen = make_task(suite / "frozen", text=TASK.format(id="frozen"), more="scenario: {scorers: []}\n")
    locked = make_task(suite / "locked", text=TASK.format(id="locked"))
    assert ab("task", "lock", frozen, locked).code == 0
    (suite / "scenario.yaml").write_text(AFTER)
    run = ("--suite", "tiny", "--tasks-dir", suite.parent)
    for command in (("run", *run, "--agent", "noop", "--dry-run"), ("validate-tasks", *run)):
        assert ab(*command).stderr.count("warning: 2 of 2 tasks keep other scorers") == 1, command
    assert scorers_of(ab, frozen) == scorers_of(ab, locked) == ([], "N/A")
    followed = ab("task", "lock", "--follow-suite", suite)
    assert followed.stdout.count("task.lock.json") == 2, followed.stderr
    assert scorers_of(ab, frozen) == scorers_of(ab, locked) == (["strict"], "FAIL")
    assert "keep other scorers" not in ab("run", *run, "--agent", "noop", "--dry-run").stderr
    assert (
        ab("task", "lock", "--follow-suite", suite).stdout == "Every task has the scorers and the judge of its suite.\n"
    )


@pytest.mark.slow
def test_tasks_from_commits_and_harvests_keep_the_scorers_of_their_suite(ab: Ab, suite: Path, tmp_path: Path) -> None:
    repo = repository(tmp_path / "calc")
    put(repo, {"calc.py": "def half(value):\n    return value // 2\n", "tests/test_calc.py": ""}, "Start")
    fix = put(repo, FIX, "Fix half of odd numbers")
    made = ab("task", "from-commit", repo, fix, "--suite-dir", suite, "--no-pin", "--json", timeout=600)
    assert made.code == 0, made.stderr
    dev = tmp_path / "tasks" / "calc-dev"
    dev.mkdir()
    (dev / "scenario.yaml").write_text(BEFORE)
    harvested = ab(
        *("task", "harvest", repo, "--name", "calc", "--tasks-dir", tmp_path / "tasks", "--no-pin", "--max", "1"),
        *("--heldout", "0"),
        timeout=600,
    )
    assert harvested.code == 0, harvested.stderr
    assert "heldout" not in harvested.stdout, "no task is held out"
    tasks = [file.parent for file in (tmp_path / "tasks").glob("*/*/task.yaml")]
    assert len(tasks) == 2, tasks
    assert [frozen_in(task) for task in tasks] == [FROZEN, FROZEN]


def test_imported_task_keeps_the_scorers_of_its_suite(ab: Ab, suite: Path, tmp_path: Path) -> None:
    files = {
        "task.toml": "version = '1.0'\n[environment]\ncpus = 1\nmemory_mb = 512\n",
        "instruction.md": "Write hello.\n",
        "environment/Dockerfile": "FROM python:3.11-slim\nWORKDIR /app\n",
        "tests/test.sh": "echo 1 > /logs/verifier/reward.txt\n",
    }
    for name, content in files.items():
        (tmp_path / "theirs" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "theirs" / name).write_text(content)
    imported = ab("task", "import", "harbor", tmp_path / "theirs", "--suite-dir", suite)
    assert imported.code == 0, imported.stderr
    assert frozen_in(suite / "theirs") == FROZEN
