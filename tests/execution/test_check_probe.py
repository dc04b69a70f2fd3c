"""Drivers of probes: tried by `ab task check-probe`, and broken ones in a run."""

from __future__ import annotations

from pathlib import Path

import pytest

from agentbench.contract import probe_driver
from tests.execution.conftest import Ab
from tests.execution.tasks import TASK, make_task

pytestmark = [pytest.mark.end_to_end, pytest.mark.req("G-14")]

HELPER = Path(probe_driver.__file__).read_text(encoding="utf-8")
DRIVER = f"""{HELPER}
with Probe() as probe:
    probe.expect("answer", "answer", "42")
    probe.expect("other", "other", "no such file")
"""


def probe_task(folder: Path, driver: str) -> Path:
    check = 'command: "grep -qx 42 answer.txt", parser: exit_code'
    text = TASK.format(id="answer").replace(check, 'kind: probe, candidate: "sh serve.sh", driver: probe.py')
    task = make_task(folder, text=text)
    serve = 'while read name; do cat "$name.txt" 2>/dev/null || echo no such file; done\n'
    (task / "repo/serve.sh").write_text(serve)
    (task / "probe.py").write_text(driver)
    return task


def test_sound_driver_is_valid(ab: Ab, tmp_path: Path) -> None:
    done = ab("task", "check-probe", probe_task(tmp_path / "task", DRIVER))
    assert done.code == 0, done.stdout
    assert done.stdout.startswith("answer: valid\n  base repository: 1 of 2 results pass\n")
    assert "failed  answer  expected '42', got '41'" in done.stdout
    assert "reference: 2 of 2 results pass" in done.stdout


def test_broken_driver_is_explained_and_is_no_failed_setup(ab: Ab, tmp_path: Path) -> None:
    task = probe_task(tmp_path / "task", DRIVER.replace("import json\n", "import jsonn as json\n"))
    done = ab("task", "check-probe", task, "--json")
    assert done.code == 1
    (check,) = done.json["checks"]
    assert check["problems"] == ["with the reference: the driver failed with exit 1"]
    assert "No module named 'jsonn'" in check["trials"][1]["driver_stderr"]
    ran = ab.by_command(task, "echo 42 > answer.txt")
    record = ran.record
    assert record["result"]["failure_reason"] == "ACCEPTANCE_ERROR"
    assert (record["run_status"], record["invalid_cause"], record["attribution"]) == ("invalid", "task", "harness")
    assert record["termination"]["code"] == "check_broken"
    assert "ab task check-probe" in record["termination"]["rationale"]
    assert ab("verify", ran.json["run_dir"]).code == 0


def test_reason_of_several_lines_is_shown_on_one(ab: Ab, tmp_path: Path) -> None:
    validated = ab("validate-tasks", "--task", probe_task(tmp_path / "task", "broken(\n"))
    assert validated.code == 1
    for output in (validated.stdout, validated.stderr):
        assert "broken( ^ SyntaxError" in output
        assert "\\x0a" not in output


def test_task_without_probe_is_an_input_error(ab: Ab, tmp_path: Path) -> None:
    done = ab("task", "check-probe", make_task(tmp_path / "task"))
    assert done.code == 2
    assert "has no check of kind `probe`" in done.stderr
