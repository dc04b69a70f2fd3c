"""SIGINT, SIGTERM and SIGKILL at any moment: every attempt ends in one record, and the run can be resumed."""

from __future__ import annotations

import json
import os
import secrets
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.execution.conftest import Ab, Interrupt
from tests.execution.tasks import make_suite
from tests.sandbox.host_processes import pids_with_argument

pytestmark = pytest.mark.end_to_end


def wait_for(condition: Callable[[], bool]) -> None:
    end = time.monotonic() + 300
    while not condition():
        assert time.monotonic() < end, "it did not happen in time"
        time.sleep(0.1)  # most conditions read the arguments of all processes


class Slow:
    """A run of the suite `tiny` whose agent sleeps as long as a file says, identifiable among all processes."""

    def __init__(self, ab: Ab, tmp_path: Path, *names: str) -> None:
        self.ab = ab
        self.tasks = make_suite(tmp_path / "tasks", *names)
        for file in self.tasks.glob("*/*/task.yaml"):
            # Only the test may end the agent, however busy the machine is.
            file.write_text(file.read_text().replace("{timeout_sec: 120,", "{timeout_sec: 900,"))
        self.out = tmp_path / "out"
        self.files = tmp_path / "agent"
        self.files.mkdir()
        self.mark = f"{secrets.randbelow(10**6) + 3000}.{secrets.randbelow(10**9)}"
        (self.files / "go.sh").write_text(f"sleep {self.mark}\n")

    def finish_at_once(self) -> None:
        (self.files / "go.sh").write_text("echo 42 > answer.txt\n")

    def start(self, *more: str | Path) -> subprocess.Popen[str]:
        return self.ab.start(
            *("run", "--suite", "tiny", "--tasks-dir", self.tasks, "--out", self.out, "--agent", "command"),
            *("--agent-command", 'sh "$AB_AGENT_FILES/go.sh"', "--agent-files", self.files, "--workers", "2", *more),
        )

    def asleep(self) -> int:
        """Count the live agents of this run on the whole machine."""
        return len(pids_with_argument(self.mark))

    @property
    def run(self) -> Path:
        (run,) = self.out.iterdir()
        return run

    def records(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in (self.run / "attempts.jsonl").read_text().splitlines()]


@pytest.fixture
def slow(ab: Ab, tmp_path: Path) -> Slow:
    return Slow(ab, tmp_path, "one", "two", "three")


@pytest.mark.req("R-13", "R-10", "E-08")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_interrupt_records_running_attempts(slow: Slow, interrupt: Interrupt, number: int) -> None:
    process = slow.start("--json")
    wait_for(lambda: slow.asleep() == 2)
    code, out, err = interrupt(process, number)
    assert code == 130, err
    assert "Traceback" not in err
    wait_for(lambda: slow.asleep() == 0)
    records = slow.records()
    assert json.loads(out) == {
        "run_dir": str(slow.run), "run_dirs": [str(slow.run)], "state": "interrupted", "attempts": records,
    }  # fmt: skip
    assert len(records) == 2
    for record in records:
        assert record["run_status"] == "invalid"
        assert record["result"] == {"passed": False, "exit_code": None, "failure_reason": "INTERRUPTED"}
    verified = slow.ab("verify", slow.run, "--json")
    assert not [problem for problem in verified.json["problems"] if problem["kind"] == "altered"], verified.stdout


def slow_checks(slow: Slow) -> None:
    """Make every check sleep if the patch adds a file."""
    for file in slow.tasks.glob("*/*/task.yaml"):
        slept = f'command: "test -e slow && sleep {slow.mark}; '
        text = file.read_text().replace('command: "', slept).replace("timeout_sec: 120}", "timeout_sec: 900}")
        file.write_text(text)
    (slow.files / "go.sh").write_text("echo 42 > answer.txt; touch slow\n")


@pytest.mark.req("R-13", "R-10")
def test_interrupt_while_grading_counts_in_no_rate_and_is_repeated(slow: Slow) -> None:
    slow_checks(slow)
    process = slow.start()
    wait_for(lambda: slow.asleep() == 2)
    # As a terminal does: to every process of the foreground group.
    os.killpg(process.pid, signal.SIGINT)
    _, err = process.communicate(timeout=600)
    assert process.returncode == 130, err
    assert f"To continue: ab run --resume {slow.run}" in err
    reasons = [record["result"]["failure_reason"] for record in slow.records()]
    assert reasons == ["INTERRUPTED"] * 2
    replayed = slow.ab("replay", slow.run)
    assert replayed.code == 2, replayed.stdout
    assert replayed.stdout.startswith("NOTHING TO COMPARE: 2 attempts: no result yet: interrupted\n")
    shown = slow.ab("show", slow.run, "--task", "one").stdout + slow.ab("show", slow.run, "--task", "two").stdout
    assert not [word for word in ("harness error", "review ", "score ", "evaluation_error") if word in shown]
    summary = slow.ab("report", "summary", "--run", slow.run, "--format", "json").json
    assert [summary["rates"][rate]["total"] for rate in ("acceptance", "contract")] == [0, 0]
    slow.finish_at_once()
    ran = slow.ab("run", "--resume", slow.run, "--json")
    assert [record["result"]["passed"] for record in ran.json["attempts"]] == [True] * 3
    assert slow.ab("verify", slow.run).code == 0


@pytest.mark.req("R-13")
def test_resume_names_other_interrupted_runs_of_the_study(slow: Slow, interrupt: Interrupt) -> None:
    variants = slow.ab.cwd / "configs" / "variants"
    variants.mkdir(parents=True)
    for name in ("first", "second"):
        (variants / f"{name}.yaml").write_text(
            f'{{name: {name}, command: sh "$AB_AGENT_FILES/go.sh", files: ../../agent}}'
        )
    process = slow.ab.start(
        *("run", "--suite", "tiny", "--tasks-dir", slow.tasks, "--out", slow.out, "--workers", "2"),
        *("--variant", "first", "--variant", "second"),
    )
    wait_for(lambda: slow.asleep() == 2)
    code, _, err = interrupt(process, signal.SIGINT)
    first, second = sorted(slow.out.iterdir())
    assert (code, err.count("To continue: ")) == (130, 2), err
    slow.finish_at_once()
    resumed = slow.ab("run", "--resume", first)
    assert f"1 other interrupted run.\nTo continue: ab run --resume {second}\n" in resumed.stderr
    assert "To continue" not in slow.ab("run", "--resume", second).stderr


INSTALLED = """
from functools import partial
from agentbench.agents.cli import agent
from agentbench.agents.cli.profiles import PROFILES, TARGET, Profile, Source
from agentbench.agents.registry import AGENTS
from agentbench.cli.main import main
from agentbench.models.client.endpoint import Dialect
profile = Profile("writer", "writer", "1", Source.PYPI, ({install!r},), Dialect.CHAT, f"sh {{TARGET}}/write.sh")
PROFILES["writer"], AGENTS["cli:writer"] = profile, partial(agent.make, profile)
main()
"""
"""`ab` with an agent that is a program to install."""


@pytest.mark.req("R-13", "R-10", "T-05")
@pytest.mark.parametrize(
    "phase, number", [("install", signal.SIGINT), ("agent", signal.SIGTERM), ("grading", signal.SIGTERM)]
)
def test_interrupt_of_an_installed_program_counts_in_no_rate(
    ab: Ab, tmp_path: Path, interrupt: Interrupt, phase: str, number: int
) -> None:
    slow = Slow(ab, tmp_path, "one")
    slow_checks(slow)
    program = f"sleep {slow.mark}" if phase == "agent" else "echo 42 > answer.txt; touch slow"
    install = f"echo '{program}' > write.sh" + (f"; sleep {slow.mark}" if phase == "install" else "")
    (tmp_path / "answers.yaml").write_text("answers: [{text: Done.}]\n")
    arguments = ("--suite", "tiny", "--tasks-dir", slow.tasks, "--out", slow.out, "--agent", "cli:writer")
    model = ("--model", f"scripted:{tmp_path / 'answers.yaml'}")
    code = INSTALLED.format(install=install)
    process = ab.start("run", *arguments, *model, program=(sys.executable, "-c", code))
    wait_for(lambda: slow.asleep() == 1)
    status, _, err = interrupt(process, number)
    assert status == 130, err
    assert "Traceback" not in err
    wait_for(lambda: slow.asleep() == 0)
    if phase == "install":
        assert not slow.out.exists()
        return
    assert [record["result"]["failure_reason"] for record in slow.records()] == ["INTERRUPTED"]
    summary = ab("report", "summary", "--run", slow.run, "--format", "json").json
    assert summary["rates"]["contract"]["total"] == 0
    assert ab("verify", slow.run).code == 0


@pytest.mark.req("R-13", "R-10")
def test_repeated_interrupts_lose_nothing(slow: Slow) -> None:
    process = slow.start()
    wait_for(lambda: slow.asleep() == 2)
    for _ in range(8):
        process.send_signal(signal.SIGINT)
        time.sleep(0.02)
    _, err = process.communicate(timeout=600)
    assert process.returncode == 130, err
    assert "Stopping 2 running attempts and saving their records…" in err
    assert "nothing is lost" in err
    assert "Traceback" not in err
    records = slow.records()
    assert [(record["final"], record["run_status"]) for record in records] == [(True, "invalid")] * 2
    verified = slow.ab("verify", slow.run)
    assert verified.code == 0, verified.stdout


@pytest.mark.req("R-13")
def test_resumed_run_keeps_its_number_of_workers(slow: Slow, interrupt: Interrupt) -> None:
    process = slow.start()
    wait_for(lambda: slow.asleep() == 2)
    interrupt(process, signal.SIGINT)
    wait_for(lambda: slow.asleep() == 0)
    process = slow.ab.start("run", "--resume", slow.run)
    wait_for(lambda: slow.asleep() == 2)
    interrupt(process, signal.SIGINT)


@pytest.mark.req("R-13")
def test_killed_run_resumes_without_loss_or_repetition(slow: Slow) -> None:
    process = slow.start()
    wait_for(lambda: slow.asleep() == 2)
    process.kill()
    process.communicate(timeout=600)
    wait_for(lambda: slow.asleep() == 0)
    assert slow.records() == []
    slow.finish_at_once()
    ran = slow.ab("run", "--resume", slow.run, "--json", "--workers", "2")
    assert ran.code == 0, ran.stderr
    finals = [record for record in slow.records() if record["final"]]
    assert sorted(str(record["task_id"]) for record in finals) == ["one", "three", "two"]
    assert all(record["result"] == {"passed": True, "exit_code": 0, "failure_reason": None} for record in finals)
    old = [record for record in slow.records() if not record["final"]]
    assert len(old) == 2
    assert {record["attempt_id"] for record in old} == {record["supersedes"] for record in finals} - {None}
    assert slow.ab("verify", slow.run).code == 0
    again = slow.ab("run", "--resume", slow.run, "--json")
    assert [record["attempt_id"] for record in again.json["attempts"]] == [
        record["attempt_id"] for record in ran.json["attempts"]
    ]


@pytest.mark.req("R-13")
def test_torn_last_line_is_ignored(slow: Slow) -> None:
    slow.finish_at_once()
    process = slow.start()
    process.communicate(timeout=600)
    attempts = slow.run / "attempts.jsonl"
    whole = attempts.read_bytes()
    attempts.write_bytes(whole[:-30])
    ran = slow.ab("run", "--resume", slow.run, "--json")
    assert ran.code == 0, ran.stderr
    assert len(slow.records()) == 3
    assert slow.ab("verify", slow.run).code == 0


@pytest.mark.req("R-13")
def test_second_process_on_a_run_directory_is_rejected(slow: Slow, interrupt: Interrupt) -> None:
    process = slow.start()
    try:
        wait_for(lambda: slow.asleep() == 2)
        ran = slow.ab("run", "--resume", slow.run)
        assert ran.code == 2
        assert "another process" in ran.stderr
    finally:
        interrupt(process, signal.SIGINT)


@pytest.mark.req("R-13")
def test_interrupt_during_setup_ends_at_once(ab: Ab, tmp_path: Path, interrupt: Interrupt) -> None:
    tasks = make_suite(tmp_path / "tasks", "one")
    file = tasks / "tiny" / "one" / "task.yaml"
    mark = f"{secrets.randbelow(10**6) + 3000}.{secrets.randbelow(10**9)}"
    file.write_text(file.read_text() + f"setup: {{commands: ['sleep {mark}']}}\n")
    process = ab.start("run", "--suite", "tiny", "--agent", "noop", "--out", tmp_path / "out")

    wait_for(lambda: bool(pids_with_argument(mark)))
    code, _, err = interrupt(process, signal.SIGTERM)
    assert code == 130, err
    wait_for(lambda: not pids_with_argument(mark))


@pytest.mark.req("R-13", "R-10")
def test_interrupt_ends_a_fetch_that_hangs(ab: Ab, tmp_path: Path) -> None:
    """Git waits for a server that accepts the connection and never answers; it is gone when the command ends."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        url = f"git://127.0.0.1:{server.getsockname()[1]}/repo.git"
        tasks = make_suite(tmp_path / "tasks", "one")
        file = tasks / "tiny" / "one" / "task.yaml"
        file.write_text(file.read_text().replace("{path: repo}", f"{{url: '{url}', commit: {'a' * 40}}}"))
        process = ab.start("run", "--suite", "tiny", "--agent", "noop", "--out", tmp_path / "out")
        server.settimeout(300)
        connection, _ = server.accept()
        with connection:
            process.send_signal(signal.SIGINT)
            _, err = process.communicate(timeout=600)
            assert process.returncode == 130, err
            connection.settimeout(60)
            while connection.recv(4096):
                pass  # git has closed its end: it is gone
    (run,) = (tmp_path / "out").iterdir()
    assert f"--resume {run}" in err
    records = [json.loads(line) for line in (run / "attempts.jsonl").read_text().splitlines()]
    assert [record["result"]["failure_reason"] for record in records] == ["INTERRUPTED"]


@pytest.mark.req("R-13")
@pytest.mark.parametrize(
    "verb", [("validate-tasks", "--suite", "tiny", "--tasks-dir"), ("task", "screen", "--suite", "tiny", "--tasks-dir")]
)
def test_interrupt_ends_task_commands_at_once(slow: Slow, interrupt: Interrupt, verb: tuple[str, ...]) -> None:
    for file in slow.tasks.glob("*/*/task.yaml"):
        text = file.read_text()
        file.write_text(
            text.replace('command: "', f'command: "sleep {slow.mark}; ').replace(
                "timeout_sec: 120}", "timeout_sec: 900}"
            )
        )
    process = slow.ab.start(*verb, slow.tasks, "--workers", "2")
    wait_for(lambda: slow.asleep() == 2)
    code, _, err = interrupt(process, signal.SIGINT)
    assert code == 130, err
    assert "Traceback" not in err
    wait_for(lambda: slow.asleep() == 0)
