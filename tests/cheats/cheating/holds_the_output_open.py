"""Leaves detached processes that ignore being ended and keep the output open, and ends with status 0 itself."""

from __future__ import annotations

from tests.cheats.planted import CORE, WRONG

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
