"""The memory limit itself, held below the kernel's ceiling.

What a sandbox writes lives in memory too and is charged to the same cgroup, so the kernel's ceiling has to be memory and
disk limit together: a full disk must be `ENOSPC` and never a kill. Programs alone could then take both. So somebody looks
at what is theirs (memory without a file behind it, and shared memory that is not a file of the sandbox's) many times a
second while commands run, and the command server ends the largest of them when it is more than the limit.
"""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Callable, Mapping
from typing import Protocol

from agentbench.sandbox.cgroups import program_memory

LOOK_SEC = 0.025
MEMORY_NOTE = (
    "memory: programs over the limit are found within 0.03 s and the largest is killed; {} in memory, so the "
    "kernel's own ceiling is memory + disk limit"
)
_READ_BYTES = 1 << 16


class MemoryGauge:
    """What the programs of one sandbox hold, from the files of its cgroup."""

    def __init__(self, files: Mapping[str, str], limit_bytes: int, written: Callable[[], int | None]) -> None:
        """`written`: bytes of the sandbox's own files that live in memory; None when that cannot be told."""
        self._usage = files.get("memory", "")
        self._stat = files.get("memory_stat", "")
        self._limit = limit_bytes
        self._written = written
        self._was_over = False

    @property
    def works(self) -> bool:
        return bool(self._usage and self._stat)

    def over(self) -> bool:
        # Everything together is one number, cheap to read, and mostly it is enough.
        usage = _read(self._usage).strip()
        if not usage.isdigit() or int(usage) <= self._limit:
            self._was_over = False
            return False
        private, shared = program_memory(_read(self._stat))
        if private > self._limit:
            return True
        written = self._written()
        over = written is not None and private + max(0, shared - written) > self._limit
        # Two numbers read one after the other while files come and go: only what is still so at the next look counts.
        over, self._was_over = over and self._was_over, over
        return over


class Holding(Protocol):
    """A sandbox whose programs are held to their memory limit."""

    @property
    def closed(self) -> bool: ...

    def enforce_memory_limit(self) -> None: ...


class MemoryMonitor:
    """Looks at all sandboxes of a backend, from one thread that lives while there are any."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._boxes: list[Holding] = []
        self._thread: threading.Thread | None = None

    def add(self, box: Holding) -> None:
        with self._lock:
            self._boxes.append(box)
            if self._thread is None:
                self._thread = threading.Thread(target=self._look, name="memory", daemon=True)
                self._thread.start()

    def _look(self) -> None:
        pause = threading.Event()
        while True:
            with self._lock:
                self._boxes = [box for box in self._boxes if not box.closed]
                if not self._boxes:
                    self._thread = None
                    return
                boxes = list(self._boxes)
            for box in boxes:
                # A sandbox that ends meanwhile is found dead by whoever uses it.
                with contextlib.suppress(OSError):
                    box.enforce_memory_limit()
            pause.wait(LOOK_SEC)


def _read(path: str) -> str:
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return ""
    try:
        return os.read(fd, _READ_BYTES).decode("ascii", "replace")
    except OSError:
        return ""
    finally:
        os.close(fd)
