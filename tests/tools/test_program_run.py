"""A program that acts as the agent is observed while it runs, on every backend."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from agentbench.core.command import Command, Completed
from agentbench.core.errors import WorkspaceError
from agentbench.core.reasons import TerminationCode
from agentbench.policy.breakers import Trip
from agentbench.tools import program_run, workspace_tracker
from agentbench.tools.program_run import AgentProgram
from agentbench.tools.rules import Caps, Rules
from agentbench.tools.session_limits import SessionEnded
from agentbench.trace.events import Intervention, ToolCallFinished, ToolCallStarted, WorkspaceMutated
from tests.tools.conftest import OpenSession
from tests.tools.project_sandboxes import ProjectSandboxes
from tests.tools.recorded_session import FolderSandbox, RecordedSession, completed

pytestmark = pytest.mark.component


def program(line: str) -> AgentProgram:
    return AgentProgram("agent_command", line)


def in_background(recorded: RecordedSession, line: str) -> tuple[threading.Thread, list[SessionEnded]]:
    """Run a program on a thread. The list gets the ending that a rule or a cap caused."""
    endings: list[SessionEnded] = []

    def run() -> None:
        try:
            recorded.session.run_program(program(line))
        except SessionEnded as end:
            endings.append(end)

    thread = threading.Thread(target=run)
    thread.start()
    return thread, endings


def wait_until(condition: Callable[[], bool]) -> None:
    for _ in range(30_000):
        if condition():
            return
        threading.Event().wait(0.01)
    pytest.fail("nothing happened in five minutes")


def wait_for_change(recorded: RecordedSession) -> None:
    """Ask for scans as model requests do, until one finds a change."""

    def changed() -> bool:
        recorded.session.before_request()
        return len(recorded.of(WorkspaceMutated)) > 0

    wait_until(changed)


def changed_paths(recorded: RecordedSession) -> list[list[str]]:
    return [[file.path for file in event.files] for event in recorded.of(WorkspaceMutated)]


@pytest.mark.req("E-05b")
def test_changes_are_logged_while_the_program_runs(any_sandboxes: ProjectSandboxes, tmp_path: Path) -> None:
    line = "echo 1 > one.txt; until test -e go; do sleep 0.01; done; echo 2 > two.txt; rm one.txt"
    with any_sandboxes.open(tmp_path) as recorded:
        thread, _ = in_background(recorded, line)
        wait_for_change(recorded)
        assert recorded.of(ToolCallFinished) == []
        recorded.session.place("/workspace/go", b"")
        thread.join()
        first, *rest = changed_paths(recorded)
        assert first == ["one.txt"]
        assert sorted({path for paths in rest for path in paths}) == ["go", "one.txt", "two.txt"]
        (finished,) = recorded.of(ToolCallFinished)
        assert finished.changed_files == ["go", "two.txt"]


def test_program_has_all_its_time_although_it_waited_for_a_model(sandboxes: ProjectSandboxes, tmp_path: Path) -> None:
    rules = Rules(caps=Caps(wall_sec=2, pause_sec=600))
    with sandboxes.open(tmp_path, rules) as recorded:
        recorded.session.model_waits(0, 600)
        assert recorded.session.run_program(program("sleep 3; echo 1 > one.txt")).ok
        assert changed_paths(recorded) == [["one.txt"]]


@pytest.mark.parametrize("pause_sec", [0, 600])
def test_program_is_ended_by_the_wall_clock(sandboxes: ProjectSandboxes, tmp_path: Path, pause_sec: float) -> None:
    with sandboxes.open(tmp_path, Rules(caps=Caps(wall_sec=2, pause_sec=pause_sec))) as recorded:
        with pytest.raises(SessionEnded) as caught:
            recorded.session.run_program(program("sleep 600"))
        assert caught.value.code is TerminationCode.WALL_CAP
        (finished,) = recorded.of(ToolCallFinished)
        assert (finished.timed_out, finished.error_type) == (True, "timeout")


@pytest.mark.req("E-05b")
def test_program_without_model_requests_is_observed(
    sandboxes: ProjectSandboxes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(program_run, "SCAN_SEC", 0.02)
    with sandboxes.open(tmp_path) as recorded:
        thread, _ = in_background(recorded, "echo 1 > one.txt; until test -e go; do sleep 0.01; done")
        wait_until(lambda: len(recorded.of(WorkspaceMutated)) > 0)
        recorded.session.place("/workspace/go", b"")
        thread.join()


@pytest.mark.req("E-05b")
def test_rewriting_program_causes_no_error_and_one_event_per_scan(
    any_sandboxes: ProjectSandboxes, tmp_path: Path
) -> None:
    line = (
        "until test -e go; do i=$((i+1)); seq $i > busy.txt; mkdir -p a/$i; echo x > a/$i/f; mv a b; rm -r b; done;"
        " echo end > busy.txt"
    )
    scans = 60
    with any_sandboxes.open(tmp_path) as recorded:
        thread, _ = in_background(recorded, line)
        wait_for_change(recorded)
        before = len(recorded.of(WorkspaceMutated))
        for _ in range(scans):
            recorded.session.before_request()
        recorded.session.place("/workspace/go", b"")
        thread.join()
        (finished,) = recorded.of(ToolCallFinished)
        assert finished.ok, finished
        # The watcher adds a few.
        assert len(recorded.of(WorkspaceMutated)) - before < 2 * scans
        assert "busy.txt" in finished.changed_files


@pytest.mark.req("E-07b", "M-03a")
def test_decision_ends_a_program_and_closes_the_gateway(any_sandboxes: ProjectSandboxes, tmp_path: Path) -> None:
    closed = threading.Event()
    line = "echo 1 > one.txt; (trap '' TERM; sleep 1000) & sleep 1000"
    with any_sandboxes.open(tmp_path) as recorded:
        recorded.session._close_gateway = closed.set
        thread, endings = in_background(recorded, line)
        wait_for_change(recorded)
        recorded.session.budget_refused(TerminationCode.TOKEN_CAP, "no tokens left", shared=False)
        thread.join(60)
        assert not thread.is_alive()
        assert closed.is_set()
        assert [end.code for end in endings] == [TerminationCode.TOKEN_CAP]
        assert [event.action for event in recorded.of(Intervention)] == ["terminate"]
        (finished,) = recorded.of(ToolCallFinished)
        assert finished.error_message == "ended by the harness: no tokens left"
        assert recorded.session.is_over()


@pytest.mark.req("E-07b")
def test_decision_of_a_rule_ends_a_program(
    sandboxes: ProjectSandboxes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with sandboxes.open(tmp_path) as recorded:
        engine = recorded.session._limits.engine

        def trips(seq: int, payload: object) -> tuple[Trip, ...]:
            if not isinstance(payload, WorkspaceMutated):
                return ()
            trip = Trip("policy", "test", "terminate", "unsafe", "terminate", TerminationCode.SAFETY, evidence=(seq,))
            return (trip, trip)

        monkeypatch.setattr(engine, "_monitor", trips)
        thread, endings = in_background(recorded, "echo 1 > one.txt; sleep 1000")
        wait_for_change(recorded)
        thread.join(60)
        assert [(end.code, end.rule) for end in endings] == [(TerminationCode.SAFETY, "test")]
        assert [event.action for event in recorded.of(Intervention)] == ["terminate"]


@pytest.mark.req("E-07b")
def test_decision_ends_a_command(any_sandboxes: ProjectSandboxes, tmp_path: Path) -> None:
    with any_sandboxes.open(tmp_path) as recorded:
        endings: list[SessionEnded] = []

        def run() -> None:
            try:
                recorded.session.run("touch /tmp/started; sleep 100")
            except SessionEnded as end:
                endings.append(end)

        thread = threading.Thread(target=run)
        thread.start()
        wait_until(lambda: len(recorded.of(ToolCallStarted)) > 0)
        with pytest.raises(SessionEnded):
            recorded.session._limits.out_of_budget(TerminationCode.COST_CAP, "no money left", shared=True)
        thread.join(60)
        assert [end.code for end in endings] == [TerminationCode.COST_CAP]
        (finished,) = recorded.of(ToolCallFinished)
        assert not finished.ok
        assert not finished.timed_out
        with pytest.raises(SessionEnded):
            recorded.session.run("true")


@pytest.mark.req("E-05b")
def test_last_event_has_the_diff_that_earlier_events_left_out(
    open_session: OpenSession, folder_sandbox: FolderSandbox, workspace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(workspace_tracker, "MAX_OBSERVED_DIFFS", 0)
    recorded = open_session()

    def run(_command: Command) -> Completed:
        for number in range(3):
            (workspace / f"{number}.txt").write_text("x\n")
            recorded.session.before_request()
        return completed()

    folder_sandbox.on_run = run
    recorded.session.run_program(program("x"))
    *observed, last = recorded.of(WorkspaceMutated)
    assert [event.diff.total_bytes for event in observed] == [0, 0, 0]
    assert all(f"+++ b/{number}.txt" in last.diff.text for number in range(3))


def test_unreadable_folders_during_a_run_count_as_a_change(
    open_session: OpenSession, folder_sandbox: FolderSandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    recorded = open_session()
    tracker = recorded.session._context.tracker
    scan = tracker.scan

    def failing(*, quick: bool = False) -> object:
        if quick:
            raise WorkspaceError("cannot read the workspace: stale file handle")
        return scan()

    def run(_command: Command) -> Completed:
        recorded.session.before_request()
        return completed()

    monkeypatch.setattr(tracker, "scan", failing)
    folder_sandbox.on_run = run
    assert recorded.session.run_program(program("x")).ok
    assert changed_paths(recorded) == [[]]


def test_changes_outside_the_scope_are_reverted_even_if_logged_earlier(
    open_session: OpenSession, folder_sandbox: FolderSandbox, workspace: Path
) -> None:
    recorded = open_session(Rules(editable_globs=("src/**",), revert_outside=True))

    def run(_command: Command) -> Completed:
        (workspace / "outside.txt").write_text("x")
        recorded.session.before_request()
        return completed()

    folder_sandbox.on_run = run
    result = recorded.session.run_program(program("x"))
    assert not (workspace / "outside.txt").exists()
    assert "reverted" in result.note
    assert [event.action for event in recorded.of(Intervention)] == ["rollback"]
