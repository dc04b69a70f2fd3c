"""Holds every process, file and byte that the sandbox has, and makes orphans without end, so that nothing answers."""

from __future__ import annotations

from tests.cheats.snippets import CORE, WRONG

FAMILY = "infrastructure"
CHANGES: dict[str, str | None] = {
    CORE: r"""
import os
import signal

for number in set(signal.Signals) - {signal.SIGKILL, signal.SIGSTOP, signal.SIGCHLD}:
    signal.signal(number, signal.SIG_IGN)
held, blocks = [], []
try:
    while True:
        held.append(os.open(f"/tmp/{os.getpid()}-{len(held)}", os.O_CREAT | os.O_WRONLY))
except OSError:
    pass
while True:
    try:
        if os.fork() == 0:
            os.setsid()
            if os.fork():
                os._exit(0)
            blocks.append(bytearray(8 << 20))
        os.write(held[0], bytes(1 << 20))
    except (OSError, MemoryError):
        pass
"""
    + WRONG,
}
TIMEOUT_SEC = 5
