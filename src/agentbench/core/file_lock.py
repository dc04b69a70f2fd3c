"""File locks between threads and processes.

Locks use flock(2): each belongs to an open file description and ends with its last holder, even when that is killed.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
from collections.abc import Iterator
from pathlib import Path


@contextlib.contextmanager
def file_lock(path: Path, mode: int = 0o644) -> Iterator[None]:
    """Wait for an exclusive lock on the file at `path`, creating the file if it does not exist.

    Raises:
        OSError: the file cannot be created or locked.
    """
    fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, mode)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX)
        yield
    finally:
        os.close(fd)


def try_lock(fd: int, *, shared: bool = False) -> bool:
    """Lock an open file without waiting. Return False if another holder is in the way."""
    try:
        fcntl.flock(fd, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def is_locked(path: Path) -> bool:
    """Return whether the file at `path` is locked. A file that cannot be opened is not."""
    try:
        fd = os.open(path, os.O_RDWR | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        return not try_lock(fd)
    finally:
        os.close(fd)
