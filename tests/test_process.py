"""Running programs on the host: bounded output, results instead of exceptions, no process left behind."""

from __future__ import annotations

import hashlib
import os
import sys
import threading
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentbench import process
from agentbench.core.errors import HarnessError, Interrupted
from agentbench.process import Capture, run_host


def test_exit_code_and_both_streams_are_returned() -> None:
    done = run_host(["/bin/sh", "-c", "echo out; echo err >&2; exit 3"])
    assert (done.exit_code, done.stdout.kept, done.stderr.kept, done.timed_out) == (3, b"out\n", b"err\n", False)


def test_death_by_signal_is_128_plus_its_number() -> None:
    done = run_host(["/bin/sh", "-c", "kill -TERM $$"])
    assert (done.exit_code, done.signal) == (143, 15)


def test_timeout_kills_the_whole_group(tmp_path: Path) -> None:
    done = run_host(["/bin/sh", "-c", f"sleep 60 & echo $! > {tmp_path}/pid; wait"], timeout_sec=3)
    assert done.timed_out
    assert done.exit_code is None
    assert not _alive(int((tmp_path / "pid").read_text()))


def _is_running(pid: str) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def test_stop_kills_the_whole_group(tmp_path: Path) -> None:
    stop = threading.Event()
    pids = tmp_path / "pids"
    line = f"sleep 300 & echo $$ $! > {pids}.new; mv {pids}.new {pids}; wait"

    def stop_once_started() -> None:
        while not pids.exists():
            time.sleep(0.01)
        stop.set()

    thread = threading.Thread(target=stop_once_started, daemon=True)
    thread.start()
    with pytest.raises(Interrupted):
        run_host(["sh", "-c", line], timeout_sec=300, stop=stop)
    thread.join()
    deadline = time.monotonic() + 60
    while any(map(_is_running, pids.read_text().split())):
        assert time.monotonic() < deadline
        time.sleep(0.01)
    with pytest.raises(Interrupted):
        run_host(["true"], stop=stop)


def test_child_that_holds_stdout_after_exit_does_not_hang_the_call(tmp_path: Path) -> None:
    done = run_host(["/bin/sh", "-c", f"sleep 60 & echo $! > {tmp_path}/pid; echo done"], timeout_sec=30)
    assert done.exit_code == 0
    assert done.stdout.kept == b"done\n"
    assert not _alive(int((tmp_path / "pid").read_text()))


def test_output_is_complete_after_a_long_wait_for_a_processor(monkeypatch: pytest.MonkeyPatch) -> None:
    def wait_for_end(pipes: process._Pipes) -> bool:
        return os.waitid(os.P_PID, pipes._child.pid, os.WEXITED | os.WNOWAIT) is not None

    monkeypatch.setattr(process._Pipes, "_ended", wait_for_end)
    monkeypatch.setattr(process, "_DRAIN_SEC", 0)  # over when this process goes on
    done = run_host(["/bin/sh", "-c", "head -c 60000 /dev/zero; echo err >&2"])
    assert (done.stdout.total_bytes, done.stderr.kept, done.timed_out) == (60_000, b"err\n", False)


def test_output_beyond_the_cap_is_counted_and_digested() -> None:
    code = "import sys\nfor i in range(64): sys.stdout.buffer.write(bytes([i]) * 65536)"
    done = run_host([sys.executable, "-I", "-S", "-c", code], keep_bytes=1000)
    whole = b"".join(bytes([i]) * 65536 for i in range(64))
    assert done.stdout.total_bytes == len(whole)
    assert done.stdout.sha256 == hashlib.sha256(whole).hexdigest()
    assert (done.stdout.head, done.stdout.tail) == (whole[:500], whole[-500:])


def test_stdin_larger_than_a_pipe_reaches_the_program() -> None:
    data = os.urandom(1 << 20)
    done = run_host(["sha256sum"], stdin=data)
    assert done.stdout.kept.split()[0].decode() == hashlib.sha256(data).hexdigest()


def test_program_that_closes_stdin_early_is_not_an_error() -> None:
    assert run_host(["true"], stdin=b"x" * (1 << 20)).exit_code == 0


def test_environment_is_exactly_the_given_one() -> None:
    assert run_host(["/usr/bin/env"], env={"A": "1"}).stdout.kept == b"A=1\n"


def test_missing_program_is_named() -> None:
    with pytest.raises(HarnessError, match="cannot start no-such-program"):
        run_host(["no-such-program"])


@given(st.lists(st.binary(max_size=40)), st.integers(0, 50))
def test_capture_keeps_both_ends_and_the_digest_of_all(chunks: list[bytes], keep: int) -> None:
    capture = Capture(keep)
    for chunk in chunks:
        capture.feed(chunk)
    whole = b"".join(chunks)
    stream = capture.stream()
    assert stream.total_bytes == len(whole)
    assert stream.sha256 == hashlib.sha256(whole).hexdigest()
    assert whole.startswith(stream.head)
    assert whole.endswith(stream.tail)
    assert len(stream.head) + len(stream.tail) == min(keep, len(whole))


def _alive(pid: int) -> bool:
    """Return whether the process stays alive. Init reaps a killed orphan only a moment later."""
    for _ in range(3000):
        try:
            state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
        except (FileNotFoundError, ProcessLookupError):
            return False
        if state == "Z":
            return False
        time.sleep(0.01)
    return True
