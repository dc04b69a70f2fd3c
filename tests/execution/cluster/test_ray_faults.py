"""Faults on a real Ray cluster: lost nodes, a lost driver, Ctrl-C and a lost cluster cost no result and leave nothing behind."""

from __future__ import annotations

import os
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from agentbench.execution.operator import PendingQuestion, pending_questions, write_answer
from agentbench.record.run_directory import RunDirectory
from agentbench.record.schema import AttemptRecord
from tests.execution.cluster.conftest import RayAb, driver
from tests.execution.cluster.ray_nodes import ROOT, Cluster, require_cluster, start_cluster
from tests.execution.tasks import ASKS, make_suite

pytestmark = [pytest.mark.slow, pytest.mark.end_to_end, pytest.mark.req("R-14b"), pytest.mark.timeout(900)]

FAULTY = ("killed", "frozen", "cut", "full", "broken")


def wait_for(condition: Callable[[], bool], what: str, seconds: float = 240) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, f"not within {seconds:.0f} s: {what}"
        time.sleep(0.3)  # most conditions list the processes of several nodes


def run_of(ab: RayAb, out: str = "out") -> Path:
    wait_for(lambda: (ab.cwd / out).is_dir() and any((ab.cwd / out).glob("*/events.jsonl")), "a run directory")
    (run,) = (ab.cwd / out).iterdir()
    return run


def records(run: Path) -> list[AttemptRecord]:
    return list(RunDirectory.open(run).records())


def sandboxes(cluster: Cluster, *nodes: str) -> list[int]:
    return [pid for node in nodes for pid in cluster.sandboxed(node, "bwrap")]


def asking(ab: RayAb, tmp_path: Path, *tasks: str) -> subprocess.Popen[str]:
    """Start a run in which every attempt waits for an operator, in an open sandbox."""
    make_suite(tmp_path / "tasks", *tasks)
    (tmp_path / "asks.yaml").write_text(ASKS)
    options = ("--agent", "scripted", "--script", "asks.yaml", "--operator", "--out", "out")
    return ab.start("run", "--suite", "tiny", "--workers", str(len(tasks)), *options)


def holding(ab: RayAb, tmp_path: Path, *tasks: str, cpus: int) -> subprocess.Popen[str]:
    """Start a run in which every attempt waits in its sandbox until `released` lets it go on."""
    for file in make_suite(tmp_path / "tasks", *tasks).glob("*/*/task.yaml"):
        file.write_text(file.read_text().replace("{timeout_sec: 120,", f"{{cpu_limit: {cpus}, timeout_sec: 900,"))
    command = "until test -e go; do sleep 1; done; rm -f go; sed -i s/41/42/ answer.txt"
    options = ("--agent", "command", "--agent-command", command, "--out", "out")
    return ab.start("run", "--suite", "tiny", "--workers", str(len(tasks)), *options)


@contextmanager
def released(cluster: Cluster, *nodes: str) -> Iterator[None]:
    """Let every attempt on these nodes go on meanwhile."""

    def release() -> None:
        for pid in (pid for node in nodes for pid in cluster.sandboxed(node, "sleep")):
            with suppress(OSError):
                Path(f"/proc/{pid}/cwd/go").touch()

    with repeated(release):
        yield


@contextmanager
def repeated(action: Callable[[], object]) -> Iterator[None]:
    over = threading.Event()

    def repeat() -> None:
        while not over.wait(0.2):
            action()

    thread = threading.Thread(target=repeat)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def errors(ab: RayAb) -> str:
    return (ab.cwd / "stderr").read_text()


PROBE = """
def probe_node(state):
    with closing(open_backend("bwrap", state=state, needs_image=False)) as backend:
        with backend.open(SandboxSpec(Phase.AGENT, Limits()), None):
            threading.Event().wait()
"""


@pytest.fixture
def hanging(cluster: Cluster) -> Iterator[str]:
    """Add a node whose probe does not end, in an open sandbox, and return its name."""
    probe = ROOT / "src/agentbench/execution/cluster/probe.py"
    changed = cluster.folder / "probe.py"
    changed.write_text(probe.read_text() + "import threading\n" + PROBE)
    cluster.add("hanging", f"mount --bind {changed} {probe}")
    yield "hanging"
    cluster.command("kill", "hanging")


@pytest.fixture
def faulty(cluster: Cluster) -> Iterator[dict[str, str]]:
    """Add nodes for faults, and return their addresses."""
    small = "mount -o remount,size=200m /dev/shm"
    yield {name: cluster.add(name, small if name == "full" else "true") for name in FAULTY}
    for name in FAULTY:
        cluster.command("kill", name)


def test_attempts_of_lost_nodes_are_made_again_elsewhere(
    ab: RayAb, cluster: Cluster, faulty: dict[str, str], tmp_path: Path
) -> None:
    # One attempt fits on a node, so each node gets one, also one that joins late.
    tasks = [f"task-{number}" for number in range(2 + len(FAULTY))]
    process = holding(ab, tmp_path, *tasks, cpus=8)
    run = run_of(ab)
    wait_for(
        lambda: all(cluster.sandboxed(name, "sleep") for name in FAULTY) or process.poll() is not None,
        "attempts on all nodes",
        seconds=400,
    )
    assert process.poll() is None, errors(ab)
    cluster.command("kill", "killed")
    cluster.command("freeze", "frozen")
    cluster.command("cut", "cut")
    cluster.command("inside", "full", "head -c 300m /dev/zero >/dev/shm/filled")
    cluster.command("inside", "broken", "mount --bind /bin/false $(command -v bwrap)")
    with released(cluster, "one", "two", "full", "broken"):
        process.wait(600)
    assert process.returncode == 0, errors(ab)
    made = records(run)
    finals = [record for record in made if record.final]
    assert sorted(record.task_id for record in finals) == sorted(tasks)
    assert all(record.result.passed for record in finals), errors(ab)
    lost = [record for record in made if not record.final]
    assert len(lost) >= len(FAULTY)
    # A sandbox that does not start in the grading phase leaves a check without a decision.
    assert {(record.run_status, record.invalid_cause) for record in lost} <= {
        *(("invalid", "harness"), ("acceptance_error", None)),
    }
    assert {record.attribution for record in lost} == {"harness"}
    assert {record.supersedes for record in made} - {None} == {record.attempt_id for record in lost}
    for name in ("killed", "frozen", "cut"):
        assert f"node {faulty[name]} is lost: " in errors(ab)
    for name in ("full", "broken"):
        assert f"harness error on node {faulty[name]}, trying another node" in errors(ab)
    assert "(raylet)" not in errors(ab) + (tmp_path / "stdout").read_text()
    verified = ab("verify", run)
    assert verified.code == 0, verified.stdout
    # A node that comes back, or lost the driver, ends what it was doing.
    cluster.command("thaw", "frozen")
    wait_for(lambda: not sandboxes(cluster, "frozen", "cut"), "the sandboxes of lost nodes end")


def test_killed_and_interrupted_drivers_leave_nothing_on_any_node(
    ab: RayAb, cluster: Cluster, hanging: str, tmp_path: Path
) -> None:
    process = asking(ab, tmp_path, "one", "two")
    run = run_of(ab)
    wait_for(lambda: len(pending_questions(run)) == 2 or process.poll() is not None, "all attempts wait")
    assert sandboxes(cluster, "one", "two"), errors(ab)
    wait_for(lambda: bool(sandboxes(cluster, hanging)), "the probe of the hanging node")
    # Ray cannot end what runs on that node, and no attempt was ever sent there.
    cluster.command("freeze", hanging, "raylet")
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    nodes = ("one", "two", hanging)
    wait_for(lambda: not sandboxes(cluster, *nodes), "the sandboxes of the dead driver end")
    kept = "find /dev/shm/agentbench-0 -type f"
    wait_for(lambda: not any(cluster.command("inside", node, kept) for node in nodes), "hidden files are gone")
    wait_for(lambda: not cluster.owners(*nodes), "no folder is left")
    cluster.command("kill", hanging)

    before = {question.attempt_id for question in pending_questions(run)}

    def asked() -> list[PendingQuestion]:
        return [question for question in pending_questions(run) if question.attempt_id not in before]

    process = ab.start("run", "--resume", run.relative_to(ab.cwd))
    wait_for(lambda: len(asked()) == 2 or process.poll() is not None, "all attempts wait again")
    write_answer(run, asked()[0], "continue", "test", "it may")
    wait_for(lambda: any(record.result.passed for record in records(run)), "the answered attempt ends")
    assert sandboxes(cluster, "one", "two"), errors(ab)
    os.killpg(process.pid, signal.SIGINT)
    process.wait(120)
    assert process.returncode == 130, errors(ab)
    assert sandboxes(cluster, "one", "two") == []
    assert "Traceback" not in errors(ab)
    assert f"To continue: ab run --resume {run.relative_to(ab.cwd)}" in errors(ab)
    made = records(run)
    finals = {(record.result.passed, record.result.failure_reason) for record in made if record.final}
    assert finals == {(True, None), (False, "INTERRUPTED")}
    assert [record.result.failure_reason for record in made if not record.final] == ["INTERRUPTED"] * 2
    verified = ab("verify", run)
    assert verified.code == 0, verified.stdout


def test_lost_cluster_ends_the_run_with_a_clear_message(
    tmp_path: Path, shared_state: Path, link_interpreter: Callable[[Path], None]
) -> None:
    require_cluster()
    cluster = start_cluster(os.getpid(), ("only",), link_interpreter)
    try:
        ab = driver(cluster, tmp_path, shared_state)
        process = asking(ab, tmp_path, "one")
        run = run_of(ab)
        wait_for(lambda: len(pending_questions(run)) == 1 or process.poll() is not None, "the attempt waits")
        cluster.command("kill", "only")
        process.wait(300)
    finally:
        cluster.command("stop")
    assert process.returncode == 3, errors(ab)
    assert "is gone" in errors(ab)
    assert "ab run --resume" in errors(ab)
    assert "Traceback" not in errors(ab)
    made = records(run)
    assert [record.result.failure_reason for record in made if record.final] == ["INTERRUPTED"]
    # The node may be seen as lost before the cluster is: then the attempt was to be made elsewhere.
    assert {record.result.failure_reason for record in made if not record.final} <= {"SANDBOX_ERROR"}
