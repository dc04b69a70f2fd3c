"""A stage that is killed or interrupted continues where it was: no attempt is lost or made twice."""

from __future__ import annotations

import json
import os
import secrets
import signal
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

from tests.execution.conftest import Ab, Interrupt
from tests.execution.test_interruption import Slow
from tests.pilot.studies import PILOT, make_pilot, read_jsonl, records
from tests.sandbox.host_processes import pids_with_argument

pytestmark = [pytest.mark.end_to_end, pytest.mark.req("L-01", "L-03")]


def wait_for(condition: Callable[[], bool]) -> None:
    """Wait long enough for eight attempts on a busy machine."""
    end = time.monotonic() + 300
    while not condition():
        assert time.monotonic() < end, "it did not happen in time"
        time.sleep(0.05)


class SlowPilot(Slow):
    """A pilot whose method `slow` sleeps until the test lets it finish."""

    def __init__(self, ab: Ab, folder: Path) -> None:
        self.ab, self.folder = ab, folder
        self.mark = f"{secrets.randbelow(10**6) + 3000}.{secrets.randbelow(10**9)}"
        variant = {"name": "slow", "command": 'sh "$AB_AGENT_FILES/go.sh"', "files": "../agent"}
        self.files = folder / "agent"
        self.files.mkdir(parents=True)
        (self.files / "go.sh").write_text(f"sleep {self.mark}\n")
        make_pilot(folder, {"methods": [*PILOT["methods"], {"variant": "slow"}]})
        (folder / "variants").mkdir()
        (folder / "variants" / "slow.yaml").write_text(json.dumps(variant))
        for file in folder.glob("tasks/*/*/task.yaml"):
            # Only the test may end the agent, however busy the machine is.
            file.write_text(file.read_text().replace("{timeout_sec: 120,", "{timeout_sec: 900,"))
        for command in ("plan", "freeze"):
            done = ab("pilot", command, folder)
            assert done.code == 0, done.stderr


def wake(slow: SlowPilot) -> None:
    """End the sleeping agents, which then have done nothing."""
    for pid in pids_with_argument(slow.mark):
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def test_killed_stage_continues_in_the_order_of_the_plan(ab: Ab, tmp_path: Path, interrupt: Interrupt) -> None:
    slow = SlowPilot(ab, tmp_path / "study")
    process = ab.start("pilot", "run", slow.folder, "--workers", "2")
    # One worker sleeps at the first of the two tasks, the other makes the remaining attempts and sleeps at the second.
    wait_for(lambda: slow.asleep() == 2)
    refused = ab("pilot", "run", slow.folder)
    assert (refused.code, "another process is changing" in refused.stderr) == (2, True)
    process.send_signal(signal.SIGKILL)
    process.communicate(timeout=600)
    wait_for(lambda: slow.asleep() == 0)
    before = [record["attempt_id"] for record in records(slow.folder)]
    status = ab("pilot", "status", slow.folder, "--json").json
    assert status["stages"][0]["state"] == "running"
    # Interrupted once more, by Ctrl-C.
    process = ab.start("pilot", "run", slow.folder, "--workers", "2")
    wait_for(lambda: slow.asleep() == 2)
    code, _, err = interrupt(process, signal.SIGINT)
    assert (code, "To continue: ab pilot run" in err) == (130, True), err
    wait_for(lambda: slow.asleep() == 0)
    process = ab.start("pilot", "run", slow.folder, "--workers", "2")
    while process.poll() is None:
        wait_for(lambda: slow.asleep() > 0 or process.poll() is not None)
        wake(slow)
    out, err = process.communicate(timeout=600)
    assert process.returncode == 0, out + err
    made = list(records(slow.folder))
    final = [record for record in made if record["final"]]
    assert len(final) == len({(record["task_id"], record["variant"], record["repeat"]) for record in final}) == 10
    assert set(before) <= {record["attempt_id"] for record in made}
    assert not {record["termination"]["code"] for record in final} & {"interrupted", "sandbox_error"}
    assert len([entry for entry in read_jsonl(slow.folder / "decisions.jsonl") if entry["kind"] == "opened"]) == 3
    verified = ab("verify", slow.folder)
    assert verified.code == 0, verified.stdout
    deviations = ab("pilot", "report", slow.folder, "--json").json["deviations"]
    assert any("without a result made again (slow " in text for text in deviations), deviations


def test_run_of_a_pilot_is_not_resumed_alone(ab: Ab, study: Path) -> None:
    run = next((study / "runs").iterdir())
    refused = ab("run", "--resume", run)
    assert (refused.code, f"continue the pilot with `ab pilot run {study}`" in refused.stderr) == (2, True)


def test_killed_flake_screen_continues_with_the_tasks_that_are_left(ab: Ab, tmp_path: Path) -> None:
    folder = make_pilot(tmp_path / "study")
    for command in ("plan", "freeze"):
        assert ab("pilot", command, folder).code == 0
    screen = folder / "flake_screen.json"
    process = ab.start("pilot", "run", folder)
    wait_for(screen.exists)
    process.send_signal(signal.SIGKILL)
    process.communicate(timeout=600)
    kept = {task["task_id"]: task for task in json.loads(screen.read_text())["tasks"]}
    assert 1 <= len(kept) <= 4
    done = ab("pilot", "run", folder)
    assert done.code == 0, done.stderr
    screened = {line.partition(":")[0] for line in done.stderr.splitlines() if line.endswith(": setup")}
    assert screened == {"four", "one", "three", "two"} - kept.keys()
    tasks = {task["task_id"]: task for task in json.loads(screen.read_text())["tasks"]}
    assert {name: tasks[name] for name in kept} == kept
    assert ab("verify", folder).code == 0
