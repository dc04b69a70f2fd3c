"""Ends a process that did not renew its lease, and removes what it left, however it ended.

The watchdog is a process of its own, so it also ends a process that hangs, is stopped or cannot exit. With a process end its
sandboxes: the spawner of each backend ends them when its socket closes, and a command server exits when its channel closes.

    python -m agentbench.sandbox.watchdog PID END FOLDER STATE     watches PID until END, on the monotonic clock
"""

from __future__ import annotations

import contextlib
import os
import select
import shutil
import signal
import struct
import sys
import time
from pathlib import Path

from agentbench.core.errors import AgentBenchError
from agentbench.process import DetachedProgram

_END = struct.Struct("d")
_CLEANUPS = 5
_STDIN = 0


class Watchdog:
    """Watches this process."""

    def __init__(self, folder: Path, state: Path, end: float) -> None:
        """
        `folder`: removed when this process has ended. `state`: its sandboxes are removed from there.
        `end`: the end of the lease, as `time.monotonic()`.

        Raises:
            HarnessError: it cannot be started.
        """
        line = (sys.executable, "-m", __name__, str(os.getpid()), str(end), str(folder), str(state))
        self._program = DetachedProgram(line)

    def renew(self, end: float) -> None:
        """Let this process live until `end`. Without a watchdog it must not live: it ends at once."""
        try:
            self._program.write(_END.pack(end))
        except OSError:
            os._exit(1)


def main() -> None:
    pid, end, folder, state = int(sys.argv[1]), float(sys.argv[2]), Path(sys.argv[3]), Path(sys.argv[4])
    watched = os.pidfd_open(pid)
    if os.getppid() != pid:  # it has ended already, and the descriptor may be of another process
        _clean(folder, state)
    elif os.fork() == 0:
        _wait_for_end(watched, end)
        _clean(folder, state)


def _wait_for_end(watched: int, end: float) -> None:
    """Wait until the process has ended. Kill it if its lease ends before."""
    poll = select.poll()
    poll.register(watched, select.POLLIN)
    poll.register(_STDIN, select.POLLIN)
    while True:
        left = end - time.monotonic()
        ready = {fd for fd, _ in poll.poll(max(0.0, left) * 1000)}
        if watched in ready:
            return
        if _STDIN in ready:
            # Renewals are read before the lease is judged: this process may have waited for a processor for long.
            if data := os.read(_STDIN, _END.size):
                (end,) = _END.unpack(data)
            else:
                poll.unregister(_STDIN)
        elif left <= 0:
            signal.pidfd_send_signal(watched, signal.SIGKILL)
            select.select([watched], [], [])


def _clean(folder: Path, state: Path) -> None:
    """Remove the folder, and the sandboxes of dead processes on both backends."""
    from agentbench.sandbox.registry import open_backend  # noqa: PLC0415 - the watchdog is small while it waits
    from agentbench.sandbox.state import remove_leftovers  # noqa: PLC0415

    shutil.rmtree(folder, ignore_errors=True)
    for _ in range(_CLEANUPS):
        remove_leftovers(state)
        time.sleep(1)  # the spawner of the dead process holds its folder until its sandboxes have ended
    if shutil.which("docker") is not None:
        with contextlib.suppress(AgentBenchError):
            open_backend("docker", state=state, needs_image=False).close()


if __name__ == "__main__":
    main()
