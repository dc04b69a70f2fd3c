"""Every change a command makes in the workspace is logged."""

from __future__ import annotations

import base64
import hashlib
import os
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from agentbench.contract.schema import DEFAULT_GENERATED
from agentbench.core.command import Command, Completed
from agentbench.core.ids import new_ulid
from agentbench.tools import workspace_tracker as watch_module
from agentbench.tools.event_recorder import EventRecorder
from agentbench.tools.rules import Rules
from agentbench.trace.blobs import BlobStore
from agentbench.trace.events import Excerpt, MonitorAlert, WorkspaceMutated
from agentbench.trace.log import EventLog, read_events
from agentbench.tree.memory import MemoryTree
from agentbench.workspace.diff.apply import plan_writes
from agentbench.workspace.diff.parse import parse
from tests.tools.conftest import OpenSession
from tests.tools.recorded_session import FolderSandbox, RecordedSession, completed, fill, record_session

pytestmark = [pytest.mark.req("E-05a"), pytest.mark.component]


def does(act: Callable[[], object]) -> Callable[[Command], Completed]:
    def run(command: Command) -> Completed:
        act()
        return completed()

    return run


def test_command_without_changes_logs_no_mutation(open_session: OpenSession, workspace: Path) -> None:
    fill(workspace, {"a": "1"})
    recorded = open_session()
    assert recorded.session.run("true").changed_files == ()
    assert recorded.of(WorkspaceMutated) == []


def test_command_changes_are_logged_with_digests_and_diff(
    open_session: OpenSession, workspace: Path, folder_sandbox: FolderSandbox
) -> None:
    fill(workspace, {"a.txt": "1\n", "gone": "x\n", "tool.sh": "echo\n"})

    def act() -> None:
        fill(workspace, {"a.txt": "2\n", "new/b": "b\n", "pkg/__pycache__/m.pyc": "\0\0"})
        (workspace / "gone").unlink()
        (workspace / "tool.sh").chmod(0o755)

    folder_sandbox.on_run = does(act)
    recorded = open_session(Rules(generated=DEFAULT_GENERATED))
    result = recorded.session.run("make")
    assert result.changed_files == ("a.txt", "gone", "new/b", "tool.sh")
    (mutated,) = recorded.of(WorkspaceMutated)
    assert mutated.call_id == "c1"
    assert [(file.path, file.change, file.generated) for file in mutated.files] == [
        ("a.txt", "modified", False),
        ("gone", "deleted", False),
        ("new/b", "added", False),
        ("tool.sh", "mode", False),
        ("pkg/__pycache__/m.pyc", "added", True),
    ]
    first = mutated.files[0]
    assert first.before_sha256 == hashlib.sha256(b"1\n").hexdigest()
    assert first.after_sha256 == hashlib.sha256(b"2\n").hexdigest()
    assert mutated.files[3].after_mode == "100755"
    assert "+b" in mutated.diff.text
    assert "pyc" not in mutated.diff.text
    types = recorded.types()
    assert types.index("tool_call_started") < types.index("workspace_mutated") < types.index("tool_call_finished")


def test_second_change_is_diffed_against_the_first(
    open_session: OpenSession, workspace: Path, folder_sandbox: FolderSandbox
) -> None:
    recorded = open_session()
    recorded.session.apply_patch("--- /dev/null\n+++ b/a\n@@ -0,0 +1 @@\n+2\n")
    folder_sandbox.on_run = does(lambda: fill(workspace, {"a": "3\n"}))
    recorded.session.run("x")
    folder_sandbox.on_run = does(lambda: fill(workspace, {"a": "4\n"}))
    recorded.session.run("x")
    first, second = recorded.of(WorkspaceMutated)
    assert "-2\n+3\n" in first.diff.text
    assert "-3\n+4\n" in second.diff.text


@pytest.mark.req("T-02")
def test_out_of_scope_change_raises_an_alert_with_evidence(
    open_session: OpenSession, workspace: Path, folder_sandbox: FolderSandbox
) -> None:
    fill(workspace, {"src/a": "1", "tests/t": "1"})
    folder_sandbox.on_run = does(lambda: fill(workspace, {"src/a": "2", "tests/t": "2", "build/x": "3"}))
    recorded = open_session(Rules(editable_globs=("src/**",), generated=DEFAULT_GENERATED))
    result = recorded.session.run("x")
    assert result.ok
    assert "tests/t" in result.note
    (alert,) = recorded.of(MonitorAlert)
    assert (alert.monitor, alert.rule) == ("scope", "editable_globs")
    assert "tests/t" in alert.detail
    assert "build" not in alert.detail
    mutated = next(event for event in recorded.events() if event.type == "workspace_mutated")
    assert alert.evidence == [mutated.seq]


def test_special_files_and_odd_names_are_logged(
    open_session: OpenSession, workspace: Path, folder_sandbox: FolderSandbox
) -> None:
    fill(workspace, {"a": "1"})

    def act() -> None:
        os.mkfifo(workspace / "fifo")
        (workspace / "a").unlink()
        (workspace / "a").symlink_to("/etc/passwd")
        (workspace / os.fsdecode(b"\xff\n")).write_bytes(b"x")

    folder_sandbox.on_run = does(act)
    recorded = open_session()
    assert recorded.session.run("x").changed_files == ("a", "fifo", "%FF%0A")
    (mutated,) = recorded.of(WorkspaceMutated)
    assert [(file.path, file.path_encoding, file.change) for file in mutated.files] == [
        ("a", "utf-8", "modified"),
        ("fifo", "utf-8", "added"),
        ("%FF%0A", "percent", "added"),
    ]
    assert mutated.files[0].after_mode == "120000"
    assert "root:" not in mutated.diff.text


def test_very_many_changes_are_counted(
    open_session: OpenSession, workspace: Path, folder_sandbox: FolderSandbox
) -> None:
    folder_sandbox.on_run = does(lambda: fill(workspace, {f"f{number}": "" for number in range(500)}))
    recorded = open_session()
    result = recorded.session.run("x")
    assert len(result.changed_files) == 200
    (mutated,) = recorded.of(WorkspaceMutated)
    assert (len(mutated.files), mutated.omitted) == (200, 300)


def test_oversized_tree_raises_an_alert_and_can_be_cleaned_up(
    open_session: OpenSession, workspace: Path, folder_sandbox: FolderSandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watch_module, "MAX_ENTRIES", 50)
    fill(workspace, {"keep": "1"})
    folder_sandbox.on_run = does(lambda: fill(workspace, {f"f{number}": "" for number in range(100)}))
    recorded = open_session()
    result = recorded.session.run("fill")
    assert result.ok
    assert "cannot tell" in result.note
    assert recorded.session.list_files().error_type == "too_large"
    assert [alert.rule for alert in recorded.of(MonitorAlert)] == ["tree_limits"]

    def clean() -> None:
        for path in workspace.glob("f*"):
            path.unlink()
        fill(workspace, {"keep": "2"})

    folder_sandbox.on_run = does(clean)
    assert recorded.session.run("clean").changed_files == ("keep",)
    assert recorded.session.list_files().stdout == "keep\n"


names = st.sampled_from(["a", "b/c", "b/d", "e.pyc"])
states = st.dictionaries(names, st.binary(max_size=6), max_size=4)


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(steps=st.lists(states, min_size=1, max_size=4))
def test_logged_diffs_rebuild_the_final_state(tmp_path: Path, steps: list[dict[str, bytes]]) -> None:
    root = tmp_path / new_ulid()
    workspace = root / "workspace"
    workspace.mkdir(parents=True)
    sandbox = FolderSandbox(workspace)
    replay = MemoryTree()
    try:
        for recorded in record_session(sandbox, root, Rules()):
            for step in steps:
                sandbox.on_run = does(partial(_become, workspace, step))
                recorded.session.run("x")
            for mutated in recorded.of(WorkspaceMutated):
                replay.apply(plan_writes(parse(whole(mutated.diff, recorded)), replay).writes)
    finally:
        sandbox.close()
    expected = {name.encode(): content for name, content in steps[-1].items()}
    assert {entry.path: replay.read(entry.path, max_bytes=99) for entry in replay.entries()} == expected


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(found=states, seen=st.lists(states, max_size=5), final=states, observed=st.integers(0, 400))
def test_scans_of_a_running_program_rebuild_the_final_state(
    tmp_path: Path, found: dict[str, bytes], seen: list[dict[str, bytes]], final: dict[str, bytes], observed: int
) -> None:
    root = tmp_path / new_ulid()
    workspace = root / "workspace"
    workspace.mkdir(parents=True)
    fill(workspace, dict(found))
    sandbox, blobs = FolderSandbox(workspace), BlobStore(root / "blobs")
    replay = MemoryTree({name.encode(): content for name, content in found.items()})
    base = MemoryTree({name.encode(): content for name, content in found.items()})
    with EventLog.create(root / "events.jsonl") as log, pytest.MonkeyPatch.context() as patch:
        patch.setattr(watch_module, "MAX_OBSERVED_DIFFS", observed)
        tracker = watch_module.WorkspaceTracker(sandbox, base, EventRecorder(log, blobs))
        start = tracker.entries()
        for state in seen:
            _become(workspace, state)
            tracker.observe("h1")
        _become(workspace, final)
        changes = tracker.scan()
        tracker.log_changes("h1", changes, tracker.changes_since(start))
        tracker.close()
    sandbox.close()
    for event in read_events(root / "events.jsonl"):
        if isinstance(event.payload, WorkspaceMutated) and event.payload.diff.total_bytes:
            diff = event.payload.diff
            data = blobs.get(diff.blob) if diff.blob else diff.data
            replay.apply(plan_writes(parse(data), replay).writes)
    expected = {name.encode(): content for name, content in final.items()}
    assert {entry.path: replay.read(entry.path, max_bytes=99) for entry in replay.entries()} == expected


def whole(excerpt: Excerpt, recorded: RecordedSession) -> bytes:
    if excerpt.blob is not None:
        return recorded.blobs.get(excerpt.blob)
    return base64.b64decode(excerpt.text) if excerpt.encoding == "base64" else excerpt.text.encode()


def _become(workspace: Path, state: dict[str, bytes]) -> None:
    for path in sorted(workspace.rglob("*"), reverse=True):
        path.rmdir() if path.is_dir() else path.unlink()
    fill(workspace, dict(state))
