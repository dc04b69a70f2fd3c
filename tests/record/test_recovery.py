from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from agentbench.core.errors import RecordError
from agentbench.core.reasons import TerminationCode
from agentbench.record import durable, sealing
from agentbench.record import run_directory as rundir
from agentbench.record.attempt_folder import AttemptFolder
from agentbench.record.audit import verify_run
from agentbench.record.recompute import recompute
from agentbench.record.run_directory import RunDirectory
from agentbench.record.schema import AttemptRecord
from agentbench.trace.events import Termination
from agentbench.trace.log import EventLog
from tests.record.samples import SampleAttempt, attempt, finish, new_run, write_events

pytestmark = [pytest.mark.req("R-13"), pytest.mark.component]


class Crash(BaseException):
    """Simulates the death of the process."""


def crash(*_args: object, **_more: object) -> None:
    raise Crash


STEPS = [
    (sealing, "write_atomic"),
    (AttemptFolder, "seal_files"),
    (EventLog, "close"),
    (rundir, "append_line"),
    (RunDirectory, "_seal"),
]


@pytest.mark.parametrize("owner,name", STEPS, ids=[name for _, name in STEPS])
def test_crash_between_any_two_steps_loses_no_attempt(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, owner: object, name: str
) -> None:
    run = new_run(tmp_path)
    attempt(run, "before")
    folder = run.begin("toy", 1)
    log = folder.open_log()
    write_events(folder, log, SampleAttempt(), run.run_id)
    with monkeypatch.context() as patch:
        patch.setattr(owner, name, crash)
        with pytest.raises(Crash):
            finish(run, folder, log)
    log.release()
    run.release()

    again = RunDirectory.open(run.path, writable=True)
    ended = name in {"append_line", "_seal"}
    assert [folder.task_id for folder in again.unfinished()] == ([] if ended else ["toy"])
    for folder in again.unfinished():
        finish(again, folder, folder.reopen_log())
    again.close()
    assert [record.task_id for record in again.records()] == ["before", "toy"]
    report = verify_run(run.path, recompute=recompute)
    assert report.ok, report.problems
    assert report.recomputed == 2


def test_crash_while_superseding_leaves_one_final_record(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = new_run(tmp_path)
    first = attempt(run, "toy")
    real = durable.write_atomic

    def only_records(path: Path, data: bytes) -> None:
        if path.name == "attempts.jsonl":
            raise Crash
        real(path, data)

    with monkeypatch.context() as patch:
        patch.setattr(rundir, "write_atomic", only_records)
        with pytest.raises(Crash):
            attempt(run, "toy", supersedes=first.attempt_id)
    assert [record.final for record in run.records()] == [True]
    run.release()
    again = RunDirectory.open(run.path, writable=True)
    assert [record.final for record in again.records()] == [False, True]
    again.close()
    assert verify_run(run.path).ok


def test_records_written_together_are_sealed_in_order_after_a_crash(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = new_run(tmp_path)
    first = {name: attempt(run, name).attempt_id for name in ("a", "b")}
    with monkeypatch.context() as patch:
        ended: list[AttemptRecord] = []
        patch.setattr(run, "adopt", lambda _folder, closed: ended.append(closed.record))
        for name in ("a", "b"):
            attempt(run, name, supersedes=first[name])
    run._append(*reversed(ended))  # the process dies before it seals them
    run.release()
    again = RunDirectory.open(run.path, writable=True)
    assert [record.task_id for record in again.finals()] == ["b", "a"]
    again.close()
    report = verify_run(run.path)
    assert report.ok, report.problems


def test_attempt_of_a_killed_process_can_be_superseded(tmp_path: Path) -> None:
    code = (
        "import os, signal, sys; from pathlib import Path\n"
        "from tests.record.samples import *\n"
        "run = new_run(Path(sys.argv[1]))\n"
        "attempt(run, 'done')\n"
        "folder = run.begin('toy', 1)\n"
        "log = folder.open_log()\n"
        "write_events(folder, log, SampleAttempt(skip=frozenset({'termination', 'acceptance_check'})), run.run_id)\n"
        'os.write(log._fd, b\'{"actor":"agent","ha\')\n'
        "print(run.path, flush=True)\n"
        "os.kill(os.getpid(), signal.SIGKILL)"
    )
    root = Path(__file__).parents[2]
    done = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path)],
        check=False,
        capture_output=True,
        text=True,
        cwd=root,
        env={**os.environ, "PYTHONPATH": str(root)},
    )
    assert done.returncode == -signal.SIGKILL, done.stderr
    path = Path(done.stdout.strip())

    report = verify_run(path)
    assert (report.ok, report.decision) == (False, "incomplete")
    assert any("tasks/toy" in note and "bytes of an incomplete line" in note for note in report.notes)

    run = RunDirectory.open(path, writable=True, harness_version="0.1.0")
    (folder,) = run.unfinished()
    assert (folder.task_id, folder.repeat, folder.attempt) == ("toy", 1, 1)
    log = folder.reopen_log()
    log.append(Termination(code=TerminationCode.INTERRUPTED, category=None, rationale="killed", evidence=[]))
    dead = finish(run, folder, log)
    assert (folder.path / "meta/torn_line.bin").read_bytes() == b'{"actor":"agent","ha'
    attempt(run, "toy", supersedes=dead.attempt_id)
    run.close()
    report = verify_run(path, recompute=recompute)
    assert report.ok, report.problems
    assert [(record.task_id, record.final) for record in run.records()] == [
        ("done", True),
        ("toy", False),
        ("toy", True),
    ]


def test_attempt_that_died_before_its_folder_existed_can_be_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = new_run(tmp_path)
    with monkeypatch.context() as patch:
        patch.setattr(AttemptFolder, "make", crash)
        with pytest.raises(Crash):
            run.begin("toy", 1)
    run.release()
    again = RunDirectory.open(run.path, writable=True)
    (folder,) = again.unfinished()
    log = folder.reopen_log()
    write_events(folder, log, SampleAttempt(), again.run_id)
    finish(again, folder, log)
    again.close()
    assert verify_run(run.path).ok


def test_incomplete_record_line_is_dropped_and_rewritten(tmp_path: Path) -> None:
    run = new_run(tmp_path)
    attempt(run, "toy")
    run.release()
    records = run.path / "attempts.jsonl"
    whole = records.read_bytes()
    seals = (run.path / "events.jsonl").read_bytes().splitlines(keepends=True)
    records.write_bytes(whole[: len(whole) // 2])
    (run.path / "events.jsonl").write_bytes(b"".join(seals[:-1]))
    assert list(RunDirectory.open(run.path).records()) == []
    again = RunDirectory.open(run.path, writable=True)
    assert records.read_bytes() == whole
    again.close()
    assert verify_run(run.path).ok


def test_closed_run_can_be_resumed(tmp_path: Path) -> None:
    run = new_run(tmp_path)
    attempt(run, "toy")
    run.close("interrupted")
    again = RunDirectory.open(run.path, writable=True)
    attempt(again, "other")
    assert not verify_run(run.path).ok
    again.close()
    report = verify_run(run.path)
    assert report.ok, report.problems
    assert report.attempts == 2


def test_tampered_chain_is_not_continued(tmp_path: Path) -> None:
    run = new_run(tmp_path)
    attempt(run, "toy")
    run.release()
    path = run.path / "events.jsonl"
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join([lines[0], *lines[2:]]))
    with pytest.raises(RecordError, match="broken"):
        RunDirectory.open(run.path, writable=True)


def test_record_that_differs_from_the_closed_chain_is_rejected(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = new_run(tmp_path)
    with monkeypatch.context() as patch:
        patch.setattr(rundir, "append_line", crash)
        with pytest.raises(Crash):
            attempt(run, "toy")
    run.release()
    record = run.path / "tasks/toy/meta/record.json"
    record.write_bytes(record.read_bytes().replace(b'"passed":true', b'"passed":false'))
    with pytest.raises(RecordError, match="differs from the record"):
        RunDirectory.open(run.path, writable=True)


def test_run_without_events_is_reopened(tmp_path: Path) -> None:
    run = new_run(tmp_path)
    run.release()
    (run.path / "events.jsonl").write_bytes(b"")
    with RunDirectory.open(run.path, writable=True) as again:
        attempt(again)
        again.close()
    report = verify_run(run.path, recompute=recompute)
    assert report.ok, report.problems


def test_run_with_attempts_and_an_empty_log_is_rejected(tmp_path: Path) -> None:
    run = new_run(tmp_path)
    attempt(run)
    run.release()
    (run.path / "events.jsonl").write_bytes(b"")
    with pytest.raises(RecordError, match="is empty, but the run has attempts"):
        RunDirectory.open(run.path, writable=True)
    assert (run.path / "events.jsonl").read_bytes() == b""
