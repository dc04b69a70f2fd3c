"""Processes on the host, as tests of cleanup see them."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable
from pathlib import Path


def processes(marker: str) -> list[str]:
    """Return the command lines on the host that contain `marker`. Zombies have none."""
    lines = []
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            line = (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
            if marker in line and int(folder.name) != os.getpid():
                lines.append(line)
    return lines


def pids_with_argument(argument: str) -> list[int]:
    """Return the processes on the host that have exactly this argument."""
    pids = []
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if argument.encode() in (folder / "cmdline").read_bytes().split(b"\0"):
                pids.append(int(folder.name))
    return pids


def until(condition: Callable[[], bool], message: str | Callable[[], str]) -> None:
    """Wait for the condition: processes end a moment after the event that ends them."""
    deadline = time.monotonic() + 300
    while not condition():
        assert time.monotonic() < deadline, message if isinstance(message, str) else message()
        time.sleep(0.1)  # most conditions read the arguments of all processes
