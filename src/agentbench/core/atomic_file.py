"""Atomic file writes: a reader sees the old content or the new, never a part of it."""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterable
from pathlib import Path


def write_atomic(path: Path, data: bytes | Iterable[bytes], *, durable: bool = False) -> None:
    """Replace the file at `path` with `data`, as a whole or in parts, or leave everything as it was.

    `durable`: the new content also survives a loss of power once this returns.

    Raises:
        OSError: the file could not be written.
    """
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    try:
        fd = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o644)
        try:
            if isinstance(data, bytes):
                write_all(fd, data)
            else:
                with open(fd, "wb", closefd=False) as file:
                    file.writelines(data)
            if durable:
                os.fsync(fd)
        finally:
            os.close(fd)
        temporary.rename(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    if durable:
        sync_folder(path.parent)


def write_all(fd: int, data: bytes) -> None:
    """Write all of `data`, however many calls that takes."""
    view = memoryview(data)
    while view:
        view = view[os.write(fd, view) :]


def sync_folder(folder: Path) -> None:
    """Make the names in `folder` survive a loss of power."""
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
