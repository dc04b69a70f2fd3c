"""Reads the state of the host when a sandbox is opened and when it is lost.

Opening costs one small file and three clocks. Whether the readings explain a loss is decided elsewhere.
"""

from __future__ import annotations

import os
import time
from pathlib import Path

from agentbench.core.command import MIB
from agentbench.core.dataclass import dataclass
from agentbench.core.host_evidence import HostEvidence, ManagerState
from agentbench.sandbox.cgroups import read_text

MEMORY_FILE = "/proc/meminfo"


@dataclass(frozen=True, slots=True)
class Ending:
    """The end of a lost sandbox, as its backend sees it."""

    why: str
    manager: ManagerState = "running"
    from_outside: bool = False
    host_oom_kills: int = 0
    disk_written_mb: int | None = None
    files_written: int | None = None


@dataclass(frozen=True, slots=True)
class Clocks:
    """One reading of three clocks, in nanoseconds: without suspended time, with it, and the wall clock."""

    monotonic: int
    boot: int
    wall: int

    @classmethod
    def read(cls) -> Clocks:
        return cls(time.monotonic_ns(), time.clock_gettime_ns(time.CLOCK_BOOTTIME), time.time_ns())

    def suspended_ms(self, since: Clocks) -> int:
        return _milliseconds((self.boot - since.boot) - (self.monotonic - since.monotonic))

    def jump_ms(self, since: Clocks) -> int:
        return _milliseconds((self.wall - since.wall) - (self.boot - since.boot))


class HostWatch:
    """The readings of one sandbox."""

    def __init__(self, state: Path) -> None:
        """`state`: the state folder, whose file system is watched."""
        self._state = state
        self._clocks = Clocks.read()
        self._memory_mb = available_memory_mb()

    def evidence(self, ending: Ending, memory_peak_mb: int | None) -> HostEvidence:
        disk_mb, inodes = free_disk(self._state)
        now = Clocks.read()
        return HostEvidence(
            manager=ending.manager,
            ended_from_outside=ending.from_outside,
            host_oom_kills=ending.host_oom_kills,
            memory_at_open_mb=self._memory_mb,
            memory_available_mb=available_memory_mb(),
            memory_peak_mb=memory_peak_mb,
            disk_free_mb=disk_mb,
            # Measured before the free space: if the sandbox's files are being removed, the sum is too large, not too small.
            disk_written_mb=ending.disk_written_mb,
            inodes_free=inodes,
            files_written=ending.files_written,
            suspended_ms=now.suspended_ms(self._clocks),
            clock_jump_ms=now.jump_ms(self._clocks),
        )


def available_memory_mb() -> int | None:
    for line in read_text(MEMORY_FILE).splitlines():
        name, _, value = line.partition(":")
        if name == "MemAvailable":
            return int(value.split()[0]) // 1024
    return None


def free_disk(folder: Path) -> tuple[int | None, int | None]:
    """Return the free MB and inodes of a folder's file system. None: unknown, or inodes are not limited."""
    try:
        system = os.statvfs(folder)
    except OSError:
        return None, None
    return system.f_bavail * system.f_frsize // MIB, system.f_favail if system.f_files else None


def _milliseconds(nanoseconds: int) -> int:
    return round(nanoseconds / 1_000_000)
