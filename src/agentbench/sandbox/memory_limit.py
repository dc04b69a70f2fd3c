"""Enforces the memory limit of programs, below the kernel's limit on the cgroup.

Files that a sandbox writes live in memory and are charged to the same cgroup, so the cgroup's limit has to be the sum
of memory and disk limit: a full disk must give `ENOSPC`, never a kill. Programs alone could then use both. A monitor
therefore checks many times a second, while commands run, how much memory belongs to programs (private memory, and
shared memory that is not a file of the sandbox); less often while they use so little that they cannot exceed the limit
before the next check. If it is more than the limit, the command server kills the largest process. At the kernel's
limit the server itself waits for memory, together with hundreds of processes if they fork without pause; then the
monitor kills them from outside.
"""

from __future__ import annotations

import contextlib
import os
import signal
import threading
import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from agentbench.sandbox.cgroups import program_memory

if TYPE_CHECKING:
    from agentbench.sandbox.served_sandbox import ServedSandbox

CHECK_INTERVAL_SEC = 0.025
LONGEST_INTERVAL_SEC = 0.1
FASTEST_GROWTH = 16 << 30
"""Bytes that programs can allocate in a second, at most: several times what the kernel clears for them."""
MEMORY_NOTE = (
    "memory: checked every 0.03 to 0.1 s, above the limit the largest process is killed; {} in memory, so the "
    "kernel's limit is memory + disk"
)
_STUCK_SEC = 10.0
"""How long programs may stay above their limit before the monitor kills them without the command server."""
_READ_BYTES = 1 << 16


class MemoryGauge:
    """Measures the memory of one sandbox's programs with the files of its cgroup, if there are any."""

    def __init__(self, files: Mapping[str, str], limit_bytes: int, written: Callable[[], int | None]) -> None:
        """`written`: returns the bytes of the sandbox's files that live in memory, or None if unknown."""
        self._usage = files.get("memory", "")
        self._stat = files.get("memory_stat", "")
        self._limit = limit_bytes
        self._written = written
        self._was_over = False
        self._over_since: float | None = None
        self.interval_sec = CHECK_INTERVAL_SEC
        """Seconds from the last measurement to the next."""

    def over(self) -> bool:
        over = self._measure()
        if not over:
            self._over_since = None
        elif self._over_since is None:
            self._over_since = time.monotonic()
        return over

    def reset(self) -> None:
        """Forget how long programs have been above their limit."""
        self._over_since = None

    @property
    def stuck(self) -> bool:
        """Whether programs have been above their limit for long."""
        return self._over_since is not None and time.monotonic() - self._over_since > _STUCK_SEC

    def kill_programs(self) -> None:
        """Kill every process of the sandbox but its command server. Processes that fork meanwhile are left for the next call."""
        self.reset()
        depth = len(_namespace_ids(os.getpid()))
        for pid in map(int, _read(f"{os.path.dirname(self._usage)}/cgroup.procs").split()):
            # The id may be reused: the descriptor is opened first, so what is examined is what is killed.
            with contextlib.suppress(OSError):
                fd = os.pidfd_open(pid)
                try:
                    ids = _namespace_ids(pid)
                    if len(ids) > depth and ids[-1] != "1":
                        signal.pidfd_send_signal(fd, signal.SIGKILL)
                finally:
                    os.close(fd)

    def _measure(self) -> bool:
        # Total usage is one number and cheap to read. Usually it is below the limit and decides alone.
        usage = _read(self._usage).strip()
        headroom = self._limit - int(usage) if usage.isdigit() else 0
        self.interval_sec = min(max(headroom / FASTEST_GROWTH, CHECK_INTERVAL_SEC), LONGEST_INTERVAL_SEC)
        if headroom >= 0:
            self._was_over = False
            return False
        private, shared = program_memory(_read(self._stat))
        if private > self._limit:
            return True
        written = self._written()
        over = written is not None and private + max(0, shared - written) > self._limit
        # The two numbers are read one after the other while files change, so only two checks in a row count.
        over, self._was_over = over and self._was_over, over
        return over


class MemoryMonitor:
    """Checks all sandboxes of a backend from one thread, which runs while there are any."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._sandboxes: list[ServedSandbox] = []
        self._thread: threading.Thread | None = None

    def add(self, sandbox: ServedSandbox) -> None:
        with self._lock:
            self._sandboxes.append(sandbox)
            if self._thread is None:
                self._thread = threading.Thread(target=self._monitor, name="memory-monitor", daemon=True)
                self._thread.start()

    def _monitor(self) -> None:
        while True:
            with self._lock:
                self._sandboxes = [sandbox for sandbox in self._sandboxes if not sandbox.closed]
                if not self._sandboxes:
                    self._thread = None
                    return
                sandboxes = list(self._sandboxes)
            pause = LONGEST_INTERVAL_SEC
            for sandbox in sandboxes:
                # If the sandbox died meanwhile, its next user gets the error.
                with contextlib.suppress(OSError):
                    pause = min(pause, sandbox.enforce_memory_limit())
            time.sleep(pause)


def _namespace_ids(pid: int) -> list[str]:
    """Return the ids of a process in each PID namespace that it is in, from this one inwards."""
    for line in _read(f"/proc/{pid}/status").split("\n"):
        if line.startswith("NSpid:"):
            return line.split()[1:]
    return []


def _read(path: str) -> str:
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return ""
    try:
        return os.read(fd, _READ_BYTES).decode("ascii", "replace")
    except OSError:
        return ""
    finally:
        os.close(fd)
