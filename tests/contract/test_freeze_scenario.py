"""Tasks keep the scorers of their suite until they are updated."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner

from agentbench.authoring.suite_list import as_lines, list_suites
from agentbench.cli.task import command as task_command
from agentbench.contract.freeze_scenario import (
    freeze_scenario,
    notice_of_other_scenario,
    with_other_scenario,
    without_frozen_scenario,
)
from agentbench.contract.load import load_task
from agentbench.contract.suite import find_tasks
from agentbench.core.errors import InputError
from tests.contract.task_folders import task_with, write_task

pytestmark = [pytest.mark.component, pytest.mark.req("C-12b")]

SCENARIO = "scorers: [{name: strict, type: max_files_changed, limit: 0}]\n"


def created_task(suite: Path, name: str) -> Path:
    """Write a task as the commands that create tasks do."""
    folder = write_task(suite / name, task_with(id=name))
    file = folder / "task.yaml"
    file.write_text(freeze_scenario(f"# A comment.\n{file.read_text()}", suite))
    return folder


@pytest.fixture
def suite(tmp_path: Path) -> Path:
    """A suite whose file came after two of its three tasks."""
    suite = tmp_path / "tasks" / "mine"
    for name in ("first", "second"):
        created_task(suite, name)
    (suite / "scenario.yaml").write_text(SCENARIO)
    created_task(suite, "third")
    return suite


def test_tasks_that_were_created_before_the_suite_file_are_counted_with_the_command(suite: Path) -> None:
    notice = notice_of_other_scenario(find_tasks(suite))
    assert notice.startswith("2 of 3 tasks keep other scorers or another judge than scenario.yaml has now")
    assert notice.endswith(f"ab task lock --follow-suite {suite}")
    assert notice_of_other_scenario([load_task(suite / "first")]).endswith(f"--follow-suite {suite / 'first'}")


@pytest.mark.parametrize(
    "scenario", [None, "scorers: []\n", "weights: {minimal: 0.5, trace: 0.1, maintainability: 0.4}\n"]
)
def test_tasks_that_follow_their_suite_give_no_notice(tmp_path: Path, scenario: str | None) -> None:
    folder = created_task(tmp_path / "mine", "one")
    if scenario is not None:
        (tmp_path / "mine" / "scenario.yaml").write_text(scenario)
    assert notice_of_other_scenario([load_task(folder)]) == ""


def test_commands_print_the_notice_once(suite: Path) -> None:
    checked = CliRunner().invoke(task_command, ["check", str(suite)])
    assert checked.exit_code == 0, checked.output
    assert checked.stderr.count("warning: 2 of 3 tasks keep other scorers") == 1
    (entry,) = [entry for entry in list_suites(suite.parent) if entry.name == "mine"]
    assert sum("2 of 3 tasks keep other scorers" in line for line in as_lines(entry)) == 1


def test_removing_the_frozen_scenario_changes_nothing_else_of_the_task(suite: Path) -> None:
    before = load_task(suite / "first")
    after = without_frozen_scenario(before)
    assert after.text == before.text[: before.text.index("\n\n# The suite's scorers")] + "\n"
    (suite / "first" / "task.yaml").write_text(after.text)
    assert with_other_scenario(find_tasks(suite)) == [load_task(suite / "second")]


@pytest.mark.parametrize("indent", [None, 1])
def test_frozen_scenario_that_cannot_be_cut_out_is_left(suite: Path, indent: int | None) -> None:
    file = suite / "first" / "task.yaml"
    file.write_text(json.dumps(yaml.safe_load(file.read_text()), indent=indent))
    with pytest.raises(InputError, match="cannot remove the key `scenario`"):
        without_frozen_scenario(load_task(file))


def test_scenario_in_the_middle_of_a_task_is_removed(suite: Path) -> None:
    file = suite / "first" / "task.yaml"
    text = yaml.safe_dump({"scenario": {"scorers": []}, **task_with(id="first")}, sort_keys=False)
    file.write_text(text)
    assert without_frozen_scenario(load_task(file)).text == text.partition("\n")[2].partition("\n")[2]
    shutil.rmtree(suite)
