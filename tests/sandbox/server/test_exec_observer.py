"""Parts of the server's observer that a sandbox shows only by chance. test_observation.py tests it as a whole."""

from __future__ import annotations

import struct
from types import SimpleNamespace

import pytest

from agentbench.sandbox.server.capture import LogBudget, unpack
from agentbench.sandbox.server.exec_observer import ExecObserver, JobLog, Start, join

pytestmark = pytest.mark.component


def make_log() -> JobLog:
    return JobLog(SimpleNamespace(name=b"1", pid=2, started=0.0, status=None))  # type: ignore[arg-type]


def start(pid: int, *argv: bytes, exists: bool = True) -> Start:
    made = Start(pid, 1, b"/bin/" + argv[0], b"/", list(argv))
    made.exists = exists
    return made


def written(log: JobLog) -> list[tuple[bytes, bytes]]:
    """Kind and last field of each entry."""
    return [(fields[0], fields[-1]) for fields in map(unpack, log.unsent)]


@pytest.mark.req("M-02b")
def test_answer_that_a_signal_interrupts_is_sent_again() -> None:
    results = [InterruptedError(), InterruptedError(), None]
    sent: list[bytes] = []

    def ioctl(_fd: int, _request: int, data: bytes) -> None:
        sent.append(data)
        result = results.pop(0)
        if result is not None:
            raise result

    observer = object.__new__(ExecObserver)
    observer.listener, observer.pack, observer.ioctl = -1, struct.pack, ioctl  # type: ignore[assignment]
    assert observer.answer(7, 0)
    assert len(sent) == 3
    results.append(ProcessLookupError())  # type: ignore[arg-type]
    assert not observer.answer(7, 0)


def test_search_is_written_once_it_has_ended() -> None:
    log = make_log()
    log.add(start(5, b"ls", b"one", exists=False), watched=True)
    log.add(start(5, b"ls", b"one"), watched=True)
    log.add(start(6, b"gone", b"two", exists=False), watched=True)
    log.add(start(6, b"other", b"three"), watched=True)
    log.add(start(7, b"gone", b"four", exists=False), watched=True)
    log.end(7, b"1", b"")
    assert written(log) == [(b"start", b"one"), (b"start", b"two"), (b"start", b"three"), (b"start", b"four")]


@pytest.mark.req("M-02b")
def test_start_that_succeeded_is_not_taken_for_a_search() -> None:
    log = make_log()
    for pid, program, caller in ((5, b"/bin/ls", b"new"), (6, b"/bin/true", b"old")):
        first, second = start(pid, b"ls", b"%d" % pid, exists=False), start(pid, b"ls", b"%d" % pid)
        first.caller, second.caller = (b"old", b""), (caller, b"")
        second.program = program
        log.add(first, watched=True)
        log.add(second, watched=True)
    assert written(log) == [(b"start", b"5"), (b"start", b"5"), (b"start", b"6"), (b"start", b"6")]


def test_missing_program_of_an_unwatched_process_is_written_at_once() -> None:
    log = make_log()
    log.add(start(5, b"gone", exists=False), watched=False)
    assert written(log) == [(b"start", b"gone")]


def test_budget_allows_a_burst_and_refills_with_time() -> None:
    budget = LogBudget(burst=100, per_sec=10)
    budget.spend(150)
    assert not budget.available()
    budget.since -= 6
    assert budget.available()
    budget.since -= 1000
    assert budget.available()
    assert budget.credit == 100


def test_relative_paths_are_joined() -> None:
    assert join(b"/", b"a") == b"/a"
    assert join(b"/work", b"././a/b") == b"/work/a/b"
    assert join(b"/work", b"/bin/sh") == b"/bin/sh"
    assert join(b"/memfd:x (deleted)", b"") == b"/memfd:x (deleted)"
