"""Reads the end of a file that another process appends to."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from agentbench.core.dataclass import dataclass

MAX_READ = 4_000_000
MAX_LINE = 64_000_000


@contextmanager
def open_regular(path: Path) -> Iterator[BinaryIO]:
    """Open a regular file without following a symbolic link at its end, and without waiting for a pipe.

    Raises:
        OSError: it is something else, or cannot be opened.
    """
    fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    with os.fdopen(fd, "rb") as file:
        if not stat.S_ISREG(os.fstat(fd).st_mode):
            raise OSError(f"{path} is not a regular file")
        yield file


@dataclass
class Tail:
    """Complete lines of a growing file, from an offset on."""

    path: Path
    offset: int = 0

    def lines(self, max_bytes: int = MAX_READ) -> list[tuple[int, bytes]]:
        """Return new complete lines with the offsets behind them; an incomplete line is left for the next call.

        A file that became shorter is read from its beginning.
        """
        try:
            with open_regular(self.path) as file:
                size = file.seek(0, 2)
                if size < self.offset:
                    self.offset = 0
                if size == self.offset:
                    return []
                file.seek(self.offset)
                data = file.read(max_bytes)
                end = data.rfind(b"\n")
                if end < 0 and len(data) == max_bytes < MAX_LINE:
                    return self.lines(min(max_bytes * 8, MAX_LINE))
        except OSError:
            return []
        lines = []
        for line in data[: end + 1].splitlines(keepends=True) if end >= 0 else ():
            self.offset += len(line)
            lines.append((self.offset, line[:-1]))
        return lines

    def all_lines(self) -> Iterator[bytes]:
        """Yield every complete line up to the current end of the file."""
        while lines := self.lines():
            yield from (line for _, line in lines)

    def skip_to_last(self, max_bytes: int) -> None:
        """Continue with the first complete line of the last `max_bytes` of the file."""
        try:
            with open_regular(self.path) as file:
                size = file.seek(0, 2)
                start = size - max_bytes
                if start <= self.offset:
                    return
                file.seek(start)
                self.offset = start + len(file.readline(MAX_LINE))
        except OSError:
            return
