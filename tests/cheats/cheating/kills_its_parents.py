"""Kills everything it can reach, the command server included."""

from __future__ import annotations

FAMILY = "infrastructure"
CHANGES: dict[str, str | None] = {
    "src/toy/core.py": r"""
import os
import signal

for target in (1, os.getppid(), 0, -1):
    try:
        os.kill(target, signal.SIGKILL)
    except OSError:
        pass
""",
}
