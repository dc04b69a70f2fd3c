"""Kills every process it can reach, including the command server."""

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
