"""Attempts whose sandbox is lost while the agent works: the agent's failure, unless the host caused it."""

from __future__ import annotations

import json
import os
import secrets
import signal
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from agentbench.sandbox.docker.engine import find_engine
from tests.execution.conftest import Ab
from tests.execution.tasks import make_task
from tests.sandbox.conftest import require_docker

pytestmark = [pytest.mark.req("G-14"), pytest.mark.end_to_end]


REASONS = {"safety": "SAFETY_STOP", "harness": "SANDBOX_ERROR"}


def status(pid: int, key: str) -> list[str]:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(line.split()[1:] for line in lines if line.startswith(f"{key}:"))


def parent(pid: int) -> int:
    return int(status(pid, "PPid")[0])


def sleepers(mark: str) -> list[int]:
    """Return the processes on the host with exactly the command `sleep MARK`."""
    pids = []
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if (folder / "cmdline").read_bytes() == f"sleep\0{mark}\0".encode():
                pids.append(int(folder.name))
    return pids


def pid_1_of(mark: str) -> int:
    """Return the host's pid of PID 1 of the sandbox in which `sleep MARK` runs."""
    # The test's own timeout is the deadline: setup may have to build an environment first.
    while not (pids := sleepers(mark)):
        time.sleep(0.05)
    pid = pids[0]
    while status(pid, "NSpid")[-1] != "1":
        pid = parent(pid)
    return pid


def kill_server(pid: int) -> None:
    """Do what a successful attack on PID 1 does."""
    os.kill(pid, signal.SIGKILL)


def kill_spawner(pid: int) -> None:
    os.kill(parent(parent(pid)), signal.SIGKILL)


def kill_container(pid: int) -> None:
    group = Path(f"/proc/{pid}/cgroup").read_text()
    engine = find_engine()
    names = engine.output("ps", "--no-trunc", "--format", "{{.ID}} {{.Names}}").splitlines()
    engine.output("kill", next(name for key, name in map(str.split, names) if key in group))


@pytest.mark.parametrize(
    "sandbox, fault, cause, words",
    [
        ("bwrap", kill_server, "safety", "the host shows no trouble: memory"),
        ("bwrap", kill_spawner, "harness", "trouble of the host: the process that owns the sandbox is gone"),
        ("docker", kill_server, "safety", "the host shows no trouble: memory"),
        ("docker", kill_container, "harness", "trouble of the host: the sandbox was ended from outside"),
    ],
)
def test_lost_sandbox_counts_against_the_agent(
    ab: Ab, tmp_path: Path, sandbox: str, fault: Callable[[int], None], cause: str, words: str
) -> None:
    if sandbox == "docker":
        require_docker()
    task = make_task(tmp_path / "task")
    mark = f"100.{secrets.randbelow(10**9):09d}"
    line = f"echo 42 > answer.txt; sleep {mark}"
    command = ("--agent", "command", "--agent-command", line, "--sandbox", sandbox)
    running = ab.start("run-task", "--task", task, "--json", *command)
    try:
        fault(pid_1_of(mark))
        out, err = running.communicate()
    finally:
        running.kill()
    result: dict[str, Any] = json.loads(out)
    (record,) = result["attempts"]
    assert (record["run_status"], record["invalid_cause"]) == ("invalid", cause), err
    assert record["result"] == {"passed": False, "exit_code": None, "failure_reason": REASONS[cause]}
    assert words in record["termination"]["rationale"]
    verified = ab("verify", result["run_dir"])
    assert verified.code == 0, verified.stdout
