"""Files that are whole or not there: atomic replacement, appending whole lines, both on disk when the call returns."""

from __future__ import annotations

import errno
import os
from pathlib import Path

from agentbench.core import atomic_file
from agentbench.core.atomic_file import write_all
from agentbench.core.errors import RecordError


def write_atomic(path: Path, data: bytes) -> None:
    """Put `data` at `path`, replacing what is there, or leave everything as it was.

    Raises:
        RecordError: it could not be written.
    """
    try:
        atomic_file.write_atomic(path, data, durable=True)
    except OSError as error:
        raise failed("write", path, error) from error


def append_line(path: Path, line: bytes) -> None:
    """Add one line at the end of `path`: all of it or nothing.

    Raises:
        RecordError: it could not be written; the file is as it was.
    """
    try:
        fd = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
        try:
            before = os.fstat(fd).st_size
            try:
                write_all(fd, line + b"\n")
                os.fsync(fd)
            except OSError:
                os.ftruncate(fd, before)
                raise
        finally:
            os.close(fd)
    except OSError as error:
        raise failed("append to", path, error) from error


def drop_torn_line(path: Path) -> bytes:
    """Cut off a last line that has no newline, left by a writer that died; the bytes that were cut."""
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        return b""
    whole = data.rfind(b"\n") + 1
    if whole != len(data):
        os.truncate(path, whole)
    return data[whole:]


def failed(what: str, path: Path, error: OSError) -> RecordError:
    """The error for a file of ours that could not be handled."""
    full = error.errno in (errno.ENOSPC, errno.EDQUOT)
    return RecordError(
        f"cannot {what} {path}: {error.strerror or error}",
        remedy="free some disk space and resume the run" if full else "",
    )
