"""How the command server finds and kills the processes of a job."""

from __future__ import annotations

import subprocess
import sys

import pytest

from agentbench.sandbox.server import process_tree

pytestmark = pytest.mark.component


def test_processes_are_stopped_before_they_are_listed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise hundreds of busy processes leave the server little time to list and kill them."""
    sent: list[tuple[int, int]] = []
    monkeypatch.setattr(process_tree, "send_signal", lambda *signal: sent.append(signal))
    monkeypatch.setattr(process_tree, "processes", lambda: {7: (1, 7)} if sent == [(-1, 19)] else {})
    assert process_tree.stop_all() == {7: (1, 7)}


def test_flood_of_ended_children_does_not_delay_the_rest(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("posix.waitpid", lambda *_: (5, 0))
    assert process_tree.reap({}, 0.1)
    monkeypatch.setattr("posix.waitpid", lambda *_: (0, 0))
    assert not process_tree.reap({}, 0.1)


def test_process_without_main_thread_is_alive_and_uses_memory() -> None:
    """Otherwise it would outlive its command, and its memory would have no limit where the server enforces it."""
    code = (
        "import ctypes, threading, time\n"
        "kept = bytearray(64 << 20)\n"
        "threading.Thread(target=lambda: (time.sleep(0.2), print('alive', flush=True), time.sleep(60))).start()\n"
        "ctypes.CDLL(None).pthread_exit(None)\n"
    )
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        state = process_tree.stat_fields(process_tree.read_proc(str(process.pid), "stat"))[0]
        listed = process.pid in process_tree.processes()
        sizes = process_tree.private_bytes(process.pid), process_tree.freeable_kb(process.pid) << 10
        process.kill()
    assert (state, listed) == (b"Z", True)
    assert min(sizes) >= 64 << 20
