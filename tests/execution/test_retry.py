"""Select tasks of a run and repeat attempts: what counts in a rate is never replaced."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from agentbench.execution.retry import RetryKind
from agentbench.record.run_directory import RunDirectory
from tests.execution.conftest import Ab
from tests.execution.tasks import TASK, make_suite, make_task
from tests.reports.runs import record

pytestmark = [
    pytest.mark.end_to_end,
    pytest.mark.skipif(shutil.which("bwrap") is None, reason="bubblewrap is not installed"),
]

SOLVE_ONE = "test -f one.txt && echo 42 > answer.txt; true"


@pytest.fixture
def suite(tmp_path: Path) -> Path:
    """A suite with a task that `SOLVE_ONE` solves, one that it does not, and one whose setup fails."""
    tasks = make_suite(tmp_path / "tasks", "one", "two")
    (tasks / "tiny" / "one" / "repo" / "one.txt").write_text("solvable\n")
    make_task(tasks / "tiny" / "broken", task_id="broken", more="setup: {commands: ['exit 3']}\n")
    return tasks


def run(ab: Ab, *options: str) -> Any:
    ran = ab("run", *options, "--agent", "command", "--agent-command", SOLVE_ONE, "--json")
    assert ran.code == 0, ran.stderr
    return ran.json


def outcomes(document: Any) -> dict[str, bool]:
    return {attempt["task_id"]: attempt["result"]["passed"] for attempt in document["attempts"]}


def test_selected_tasks_of_a_run_and_of_its_failures(ab: Ab, suite: Path) -> None:
    first = run(ab, "--suite", "tiny", "--task", "t*", "--task", "one")
    assert outcomes(first) == {"one": True, "two": False}
    second = run(ab, "--failed-of", "latest")
    assert outcomes(second) == {"two": False}
    meta = json.loads((Path(second["run_dir"]) / "run.json").read_text())
    assert meta["request"]["selection"]["failed_of"]["run_id"] == first["attempts"][0]["run_id"]
    summary = ab("report", "summary", "latest").stdout
    assert "PROVISIONAL" in summary
    assert f"because run {first['attempts'][0]['run_id']} did not pass them" in summary
    assert (
        "2 of 3 tasks of the suite, selected by --task t* --task one"
        in ab("report", "summary", first["run_dir"]).stdout
    )
    resumed = ab("run", "--resume", "latest", "--json")
    assert outcomes(resumed.json) == {"two": False}
    assert "--limit cannot be changed" in ab("run", "--resume", "latest", "--limit", "1").stderr


def test_failures_of_a_run_of_several_suites(ab: Ab, suite: Path) -> None:
    """A suite of the default folder with the same name and other tasks is not mistaken for the one that was run."""
    make_task(suite / "small" / "three", text=TASK.format(id="three").replace("suite: tiny", "suite: small"))
    elsewhere = suite.rename(suite.with_name("elsewhere"))
    make_suite(suite, "two")
    first = run(ab, "--task", str(elsewhere / "tiny" / "two"), "--task", str(elsewhere / "small"))
    assert outcomes(first) == {"two": False, "three": False}
    assert json.loads((Path(first["run_dir"]) / "run.json").read_text())["suite"] == "small+tiny"
    second = run(ab, "--failed-of", "latest")
    assert outcomes(second) == {"two": False, "three": False}
    meta = json.loads((Path(second["run_dir"]) / "run.json").read_text())
    assert meta["request"]["task_paths"] == [str(elsewhere / "tiny" / "two"), str(elsewhere / "small")]
    marked = ab("ci", "annotations", second["run_dir"]).stdout
    assert "file=tasks/small/three/task.yaml," in marked
    assert "file=tasks/tiny/two/task.yaml," in marked


@pytest.mark.parametrize(
    "command",
    [
        ("run", "--agent", "noop"),
        ("validate-tasks",),
        ("grade", "--patch", "tasks/tiny/one/reference.patch"),
        ("task", "audit"),
    ],
    ids=lambda command: command[0],
)
def test_unknown_task_is_refused_with_the_closest_one(ab: Ab, suite: Path, command: tuple[str, ...]) -> None:
    ran = ab(*command, "--suite", "tiny", "--task", "tow")
    assert ran.code == 2
    assert "--task tow matches no task of suite tiny (did you mean `two`?)" in ran.stderr
    assert "available: broken, one, two" in ran.stderr


def test_grade_takes_a_task_by_its_id(ab: Ab, suite: Path) -> None:
    ran = ab("grade", "--suite", "tiny", "--task", "one", "--patch", suite / "tiny" / "one" / "reference.patch")
    assert (ran.code, ran.stdout.splitlines()[0].split()[0]) == (0, "PASS")


def test_predictions_for_tasks_that_are_not_selected_are_left_out(ab: Ab, suite: Path, tmp_path: Path) -> None:
    patch = (suite / "tiny" / "one" / "reference.patch").read_text()
    lines = [json.dumps({"instance_id": name, "model_patch": patch}) for name in ("one", "two")]
    (tmp_path / "predictions.jsonl").write_text("\n".join(lines))
    ran = ab("grade", "--suite", "tiny", "--task", "two", "--predictions", "predictions.jsonl", "--json")
    assert outcomes(ran.json) == {"two": True}


def test_retry_repeats_invalid_attempts_in_place_and_failed_ones_in_a_new_run(ab: Ab, suite: Path) -> None:
    first = run(ab, "--suite", "tiny")
    path = Path(first["run_dir"])
    ran = ab("retry", "latest")
    assert ran.code == 0, ran.stderr
    assert "Repeating 1 attempt in the same run." in ran.stderr
    records = list(RunDirectory.open(path).records())
    assert [(entry.task_id, entry.final) for entry in records if entry.task_id == "broken"] == [
        ("broken", False),
        ("broken", True),
    ]
    assert len(records) == 4
    assert ab("verify", path).code == 0

    before = (path / "attempts.jsonl").read_bytes()
    failed = ab("retry", path, "--failed", "--json")
    assert outcomes(failed.json) == {"two": False}
    assert (path / "attempts.jsonl").read_bytes() == before
    meta = json.loads((Path(failed.json["run_dir"]) / "run.json").read_text())
    assert meta["retry_of"] == {"run_id": records[0].run_id, "name": path.name, "kind": "failed"}
    shown = ab("report", "summary", "latest").stdout
    assert f"only attempts that did not pass in run {records[0].run_id} were made" in shown

    nothing = ab("retry", path, "--errors")
    assert nothing.code == 2
    assert "--invalid would repeat 1, --failed would repeat 1" in nothing.stderr


def test_grading_run_is_not_continued_and_the_remedy_names_its_command(ab: Ab, suite: Path, tmp_path: Path) -> None:
    (tmp_path / "empty.patch").write_text("")
    ab("grade", "--suite", "tiny", "--task", "two", "--patch", "empty.patch")
    for command in (("retry", "latest", "--failed"), ("run", "--resume", "latest")):
        refused = ab(*command)
        assert refused.code == 2
        assert "cannot be resumed: its request has no method 'patch'" in refused.stderr
        assert "repeat the command that made it, if that was `ab grade` or `ab demo`" in refused.stderr


def test_run_without_records_is_not_called_passed(ab: Ab, suite: Path) -> None:
    made = ab("run", "--suite", "tiny", "--agent", "noop", "--json")
    (Path(made.json["run_dir"]) / "attempts.jsonl").unlink()
    retried = ab("retry", "latest", "--failed")
    assert (retried.code, "it has no finished attempts" in retried.stderr) == (2, True)
    selected = ab("run", "--failed-of", "latest", "--agent", "noop")
    assert (selected.code, "has no results: attempts.jsonl lacks" in selected.stderr) == (2, True)
    assert "passed" not in retried.stderr + selected.stderr


@pytest.mark.parametrize(
    "kind, repeated",
    [
        (RetryKind.INVALID, {"harness", "task", "operator"}),
        (RetryKind.ERRORS, {"harness", "error"}),
        (RetryKind.FAILED, {"fail", "policy", "error", "safety"}),
    ],
)
def test_attempts_of_each_kind_of_retry(kind: RetryKind, repeated: set[str]) -> None:
    kinds = ("pass", "fail", "policy", "error", "harness", "task", "operator", "safety")
    assert {name for name in kinds if kind.wants(record("toy", name))} == repeated
