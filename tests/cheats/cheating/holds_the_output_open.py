"""Leaves detached processes that ignore signals and keep the output open, and exits with status 0."""

from __future__ import annotations

from tests.cheats.snippets import CORE, WRONG

FAMILY = "bombs"
CHANGES: dict[str, str | None] = {
    CORE: r"""
import os
import signal
import time

for _ in range(8):
    if os.fork() == 0:
        os.setsid()
        for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT, signal.SIGPIPE):
            signal.signal(number, signal.SIG_IGN)
        while True:
            os.write(1, b"12 passed\n")
            time.sleep(0.1)
os._exit(0)
"""
    + WRONG,
}
TIMEOUT_SEC = 15
