"""Forks until no process can be created."""

from __future__ import annotations

from tests.cheats.snippets import CORE, WRONG

FAMILY = "bombs"
CHANGES: dict[str, str | None] = {
    CORE: r"""
import os
import time

while True:
    try:
        if os.fork() == 0:
            time.sleep(60)
    except OSError:
        break
"""
    + WRONG,
}
TIMEOUT_SEC = 15
