"""Readings of the host when a sandbox was lost."""

from __future__ import annotations

from typing import Literal

from agentbench.core.dataclass import dataclass

ManagerState = Literal["running", "stopped", "gone"]


@dataclass(frozen=True, slots=True)
class HostEvidence:
    """The state of the host over the life of a sandbox that ended or stopped answering.

    Everything is read on the host from sources that nothing inside a sandbox can write. None: unknown.
    """

    manager: ManagerState = "running"
    """The process that owns the sandbox: the spawner (bubblewrap) or the engine (Docker)."""
    ended_from_outside: bool = False
    """The engine was asked to end or pause the container, or bubblewrap itself was killed by a signal."""
    host_oom_kills: int = 0
    """Processes of the sandbox that the kernel killed for memory although its own limit was not reached."""
    memory_at_open_mb: int | None = None
    """Memory that was available on the host when the sandbox was opened."""
    memory_available_mb: int | None = None
    memory_peak_mb: int | None = None
    """The most memory that the sandbox used."""
    disk_free_mb: int | None = None
    """Free space of the state folder's file system."""
    disk_written_mb: int | None = None
    """Space on the host's disk that the sandbox used."""
    inodes_free: int | None = None
    files_written: int | None = None
    """Files on the host's disk that the sandbox made."""
    suspended_ms: int = 0
    """Time for which the machine was suspended."""
    clock_jump_ms: int = 0
    """How far the wall clock was set, forward or back."""
