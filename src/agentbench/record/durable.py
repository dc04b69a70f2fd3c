"""Durable writes: atomic replacement and appending of complete lines, synced to disk when the call returns."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

from agentbench.core import atomic_file
from agentbench.core.atomic_file import write_all
from agentbench.core.errors import RecordError


def write_atomic(path: Path, data: bytes | Iterable[bytes]) -> None:
    """Replace the file at `path` with `data`, as a whole or in parts, or leave everything as it was.

    Raises:
        RecordError: the file cannot be written.
    """
    try:
        atomic_file.write_atomic(path, data, durable=True)
    except OSError as error:
        raise RecordError.of("write", path, error) from error


def append_line(path: Path, line: bytes) -> None:
    """Append one complete line to `path`, or leave the file as it was.

    Raises:
        RecordError: the line cannot be written.
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
        raise RecordError.of("append to", path, error) from error


def drop_torn_line(path: Path) -> bytes:
    """Remove an incomplete last line, left by a process that died, and return it."""
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        return b""
    complete = data.rfind(b"\n") + 1
    if complete != len(data):
        os.truncate(path, complete)
    return data[complete:]
