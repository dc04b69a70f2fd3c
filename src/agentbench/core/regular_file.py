"""Opens files that others may have put there: never a pipe or a device, and nothing larger than a file of a run can be."""

from __future__ import annotations

import errno
import os
import stat
from io import BufferedReader, FileIO
from pathlib import Path

MAX_BYTES = 4 * 1024**3
MAX_LINE = 64 * 1024**2
"""Longer lines are read in parts. A part without its end is an incomplete line, at which readers of logs and records stop."""


class BoundedLines(BufferedReader):
    """A file whose lines cannot fill the memory."""

    def __next__(self) -> bytes:
        if line := self.readline(MAX_LINE):
            return line
        raise StopIteration


def open_regular(path: Path | str, max_bytes: int = MAX_BYTES) -> BufferedReader:
    """Open a file for reading.

    Raises:
        OSError: it cannot be read, is not a regular file, or is larger than `max_bytes`.
    """
    # Without O_NONBLOCK, opening a pipe would wait for a writer.
    file = BoundedLines(FileIO(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb"))
    state = os.fstat(file.fileno())
    if stat.S_ISREG(state.st_mode) and state.st_size <= max_bytes:
        return file
    file.close()
    if stat.S_ISREG(state.st_mode):
        raise OSError(errno.EFBIG, f"larger than {max_bytes} bytes", str(path))
    raise OSError(errno.EINVAL, "not a regular file", str(path))
