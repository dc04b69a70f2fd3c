"""The lock of a pilot: one process at a time changes it."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from agentbench.core.errors import InputError
from agentbench.core.file_lock import try_lock
from agentbench.pilot.folder import PILOT_FILE


@contextmanager
def pilot_lock(folder: Path) -> Iterator[None]:
    """Hold the lock of a pilot: one process at a time changes it.

    Raises:
        InputError: another process holds it.
    """
    try:
        fd = os.open(folder / PILOT_FILE, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        raise InputError(f"{folder} is not a pilot (no {PILOT_FILE})") from None
    try:
        if not try_lock(fd):
            raise InputError(f"another process is changing {folder}", remedy="wait until it has finished")
        yield
    finally:
        fcntl.flock(fd, fcntl.LOCK_UN)
        os.close(fd)
