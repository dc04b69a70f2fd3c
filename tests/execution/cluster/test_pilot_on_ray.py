"""A pilot on a real Ray cluster: its stages survive a killed driver, and `ab verify` sees no difference to a local one."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import time
from pathlib import Path

import pytest

from tests.execution.cluster.conftest import RayAb
from tests.execution.test_check_probe import DRIVER, probe_task
from tests.pilot.studies import make_pilot, read_jsonl, records

pytestmark = [
    pytest.mark.slow,
    pytest.mark.end_to_end,
    pytest.mark.req("L-01", "L-03", "R-14a"),
    pytest.mark.timeout(900),
]

WAIT_SEC = 300
PILOT = {
    "suites": [{"name": "tiny", "tasks_dir": "tasks", "tasks": ["one", "two"]}],
    "strata": [],
    "stages": {"feasibility": {"tasks_per_stratum": 1}, "limited": {"repeats": 1}, "full": {"repeats": 2}},
}


def use_probe(task: Path) -> None:
    """Let the check of a task be a probe, whose driver the sandbox of a node must be able to read."""
    shutil.rmtree(task)
    probe_task(task, DRIVER)
    file = task / "task.yaml"
    file.write_text(file.read_text().replace("id: answer\n", f"id: {task.name}\n", 1))


def wait_for_record(folder: Path, driver: subprocess.Popen[str]) -> None:
    end = time.monotonic() + WAIT_SEC
    while not any(records(folder)):
        assert driver.poll() is None, "the driver ended without a record"
        assert time.monotonic() < end, "no attempt ended in time"
        time.sleep(0.1)


def test_pilot_on_ray_is_killed_continued_and_verified(ab: RayAb, tmp_path: Path) -> None:
    folder = make_pilot(tmp_path / "study", PILOT)
    use_probe(folder / "tasks" / "tiny" / "two")
    for command in ("plan", "freeze"):
        done = ab("pilot", command, folder)
        assert done.code == 0, done.stderr
    run = ("pilot", "run", folder, "--workers", "2")
    driver = ab.start(*run)
    wait_for_record(folder, driver)
    os.killpg(driver.pid, signal.SIGKILL)
    driver.wait(WAIT_SEC)
    before = {record["attempt_id"] for record in records(folder)}
    for stage in ("feasibility", "limited"):
        done = ab.on_ray(*run, "--json")
        assert (done.code, json.loads(done.stdout)["decision"]["stage"]) == (0, stage), done
    final = [record for record in records(folder) if record["final"]]
    assert {(record["task_id"], record["variant"]): record["result"]["passed"] for record in final} == {
        (task, method): method in ("good", "reference")
        for task in ("one", "two")
        for method in ("lazy", "good", "noop", "reference")
    }
    assert before <= {record["attempt_id"] for record in records(folder)}
    kinds = [entry["kind"] for entry in read_jsonl(folder / "decisions.jsonl")]
    assert kinds == ["entry", "opened", "opened", "exit", "entry", "opened", "exit"]
    refused = ab.on_ray(*run)
    assert (refused.code, "NOT MET power_supported" in refused.stdout) == (1, True), refused
    verified = ab("verify", folder)
    assert verified.code == 0, verified.stdout
