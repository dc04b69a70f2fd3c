"""Gate G1 says whether every mandatory check could be started, and whose fault it is if not."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.execution.conftest import Ab
from tests.execution.tasks import TASK, make_task

pytestmark = [pytest.mark.end_to_end, pytest.mark.req("G-03b")]

COMMAND = "grep -qx 42 answer.txt"
SCRIPT = f"#!/bin/sh\n{COMMAND}\n"
DRIVER = """\
import json, os
results = os.fdopen(int(os.environ["AB_RESULT_FD"]), "w")
answer = input()
results.write(json.dumps({"id": "answer", "outcome": "pass" if answer == "42" else "fail", "why": answer}) + "\\n")
results.write(json.dumps({"end": 1}) + "\\n")
"""


def task_with_script(folder: Path, name: str = "check.sh", *, check: str | None = None) -> Path:
    """Create a task whose check runs an executable file of the base repository."""
    text = TASK.format(id="answer")
    text = text.replace(f'command: "{COMMAND}", parser: exit_code', check or 'command: "./check.sh", parser: exit_code')
    task = make_task(folder, text=text)
    script = task / "repo" / name
    script.write_text(SCRIPT)
    script.chmod(0o755)
    return task


def graded(ab: Ab, task: Path, line: str) -> dict[str, Any]:
    ran = ab.by_command(task, line)
    assert ab("verify", ran.json["run_dir"]).code == 0
    return ran.record


def tags(record: dict[str, Any]) -> set[tuple[str, str]]:
    return {(tag["id"], tag["gate"]) for tag in record["tags"]}


def test_check_that_starts_leaves_the_gate_without_a_remark(ab: Ab, tmp_path: Path) -> None:
    record = graded(ab, task_with_script(tmp_path / "task"), "echo 42 > answer.txt")
    assert record["result"]["passed"]
    assert record["gates"]["G1"] == {"outcome": "pass", "passed": True, "why": ""}


@pytest.mark.parametrize(
    "line,problem",
    [
        ("rm check.sh", "`./check.sh` does not exist"),
        ("chmod -x check.sh", "`./check.sh` is not executable"),
        (
            r"sed -i '1s|.*|#!/no/such/shell|' check.sh",
            "the interpreter `/no/such/shell` of `./check.sh` does not exist",
        ),
        (r"sed -i '1s|.*|#!/usr/bin/env nosuchshell|' check.sh", "the interpreter `nosuchshell` of `./check.sh`"),
    ],
)
def test_patch_that_keeps_a_check_from_starting_fails_the_gate(ab: Ab, tmp_path: Path, line: str, problem: str) -> None:
    record = graded(ab, task_with_script(tmp_path / "task"), f"echo 42 > answer.txt; {line}")
    gate = record["gates"]["G1"]
    assert (gate["outcome"], gate["passed"]) == ("fail", False)
    assert gate["why"].startswith(f"check answer cannot be started: {problem}")
    assert gate["why"].endswith("; it starts on the base repository")
    assert (record["run_status"], record["result"]["failure_reason"]) == ("failure", "PATCH_INVALID")
    assert (record["attribution"], record["checks"][0]["outcome"]) == ("agent", "fail")
    assert ("patch.breaks_check", "G1") in tags(record)


def test_program_that_the_patch_must_provide_is_named_but_fails_its_check(ab: Ab, tmp_path: Path) -> None:
    task = task_with_script(tmp_path / "task", "other.sh")
    missing = graded(ab, task, "echo 42 > answer.txt")
    assert missing["gates"]["G1"]["passed"]
    assert missing["gates"]["G1"]["why"] == "check answer cannot be started: `./check.sh` does not exist"
    assert (missing["run_status"], missing["result"]["failure_reason"]) == ("failure", "TESTS_FAILED")
    assert graded(ab, task, "echo 42 > answer.txt; mv other.sh check.sh")["result"]["passed"]


def test_program_that_the_environment_lacks_is_an_error_of_the_task(ab: Ab, tmp_path: Path) -> None:
    text = TASK.format(id="answer")
    oracle = text[text.index("oracle:") : text.index("reference:")]
    short = "validation: {failing_command: 'grep -qx 42 answer.txt', passing_command: nosuchprogram --check}\n"
    record = graded(ab, make_task(tmp_path / "task", text=text.replace(oracle, short)), "echo 42 > answer.txt")
    gate = record["gates"]["G1"]
    assert (gate["outcome"], gate["passed"]) == ("error", False)
    assert gate["why"] == "check validation cannot be started: `nosuchprogram` is not in the environment"
    assert (record["run_status"], record["result"]["failure_reason"]) == ("acceptance_error", "ACCEPTANCE_ERROR")
    assert record["attribution"] == "harness"
    assert ("evaluation_error", "G1") in tags(record)


@pytest.mark.parametrize(
    "command,problem",
    [
        ("nosuchprogram --check", "`nosuchprogram` is not in the environment"),
        ("grep -qx '42 answer.txt", "the command is not valid shell syntax: "),
    ],
)
def test_check_that_cannot_start_at_the_baseline_makes_the_attempt_invalid(
    ab: Ab, tmp_path: Path, command: str, problem: str
) -> None:
    task = task_with_script(tmp_path / "task", check=f'command: "{command}", parser: exit_code')
    record = graded(ab, task, "echo 42 > answer.txt")
    assert (record["run_status"], record["invalid_cause"]) == ("invalid", "task")
    assert problem in record["termination"]["rationale"]


def test_program_of_a_probe_that_the_patch_breaks_fails_the_gate(ab: Ab, tmp_path: Path) -> None:
    probe = 'kind: probe, candidate: "./serve.sh", driver: probe.py'
    task = task_with_script(tmp_path / "task", "serve.sh", check=probe)
    (task / "repo" / "serve.sh").write_text("#!/bin/sh\ncat answer.txt\n")
    (task / "probe.py").write_text(DRIVER)
    assert graded(ab, task, "echo 42 > answer.txt")["result"]["passed"]
    record = graded(ab, task, "echo 42 > answer.txt; rm serve.sh")
    assert record["gates"]["G1"]["why"].startswith("check answer cannot be started: `./serve.sh` does not exist")
    assert record["result"]["failure_reason"] == "PATCH_INVALID"


def test_program_that_exits_with_127_itself_was_started(ab: Ab, tmp_path: Path) -> None:
    task = task_with_script(tmp_path / "task")
    record = graded(ab, task, "printf '#!/bin/sh\\nexit 127\\n' > check.sh")
    assert record["gates"]["G1"]["passed"]
    assert record["result"]["failure_reason"] == "TESTS_FAILED"
