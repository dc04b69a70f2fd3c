"""The watchdog ends a process whose lease has run out, and cleans up after every process."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.sandbox.host_processes import processes, until

pytestmark = [pytest.mark.component, pytest.mark.req("R-06")]

WATCHED = """
import sys, time
from pathlib import Path
from agentbench.sandbox.watchdog import Watchdog
folder, leases = Path(sys.argv[1]), map(float, sys.argv[2:])
folder.mkdir()
watchdog = Watchdog(folder, folder.parent / "state", time.monotonic() + next(leases))
for lease in leases:
    watchdog.renew(time.monotonic() + lease)
sys.stdin.read()
"""


def end_of(folder: Path, *leases: float, stdin: int = subprocess.PIPE) -> int:
    """Start a process with these leases, and return its exit code once its watchdog has cleaned up."""
    line = [sys.executable, "-c", WATCHED, str(folder), *map(str, leases)]
    with subprocess.Popen(line, stdin=stdin) as process:
        code = process.wait(300)
    until(lambda: not folder.exists() and not processes(str(folder)), "the watchdog has not cleaned up")
    return code


@pytest.mark.parametrize("leases", [(0.2,), (900, 0.2), (0.2, *(0.2,) * 1000)])
def test_process_is_killed_when_its_last_lease_runs_out(tmp_path: Path, leases: tuple[float, ...]) -> None:
    assert end_of(tmp_path / "folder", *leases) == -signal.SIGKILL


def test_process_with_a_lease_ends_by_itself(tmp_path: Path) -> None:
    assert end_of(tmp_path / "folder", 900, stdin=subprocess.DEVNULL) == 0


def test_process_without_its_watchdog_ends_when_it_renews(tmp_path: Path) -> None:
    code = """
import os, signal, sys, time
from pathlib import Path
from agentbench.sandbox.watchdog import Watchdog
from tests.sandbox.host_processes import pids_with_argument
folder = Path(sys.argv[1])
watchdog = Watchdog(folder, folder / "state", time.monotonic() + 900)
(pid,) = pids_with_argument(str(folder / "state"))
os.kill(pid, signal.SIGKILL)
while True:
    watchdog.renew(time.monotonic() + 900)
"""
    ended = subprocess.run([sys.executable, "-c", code, str(tmp_path)], check=False, timeout=300)
    assert ended.returncode == 1
