"""Decides whether the host explains the loss of a sandbox.

A sandbox that ends or stops answering while code of an agent or a candidate runs is that code's failure, unless the host had
trouble of its own. Only evidence that code inside a sandbox cannot produce counts:

    spawner or engine gone or stopped   outside the sandbox's process namespace; no engine socket inside. A slow engine does
                                        not count: the command channel does not go through it
    ended from outside                  the engine's event stream, or the wait status of bubblewrap's outer process
    killed by the host's OOM killer     only if the sandbox used less than half of what was available when it was opened:
                                        exhausting the host alone takes more than that
    host without memory                 the same
    host without disk or inodes         what the sandbox wrote itself is added to what is free. If that is unknown, as for
                                        files on the host's disk, it is no trouble
    suspended, wall clock set           needs CAP_SYS_TIME or the machine's power management

Filling the sandbox's own limits (memory, disk, processes) is none of these.
"""

from __future__ import annotations

from agentbench.core.host_evidence import HostEvidence

LOW_MEMORY_MB = 64
LOW_DISK_MB = 8
LOW_INODES = 100
SUSPENDED_MS = 1_000
CLOCK_JUMP_MS = 10_000
"""Far more than a clock that is adjusted gradually can drift during an attempt."""


def host_troubles(evidence: HostEvidence) -> tuple[str, ...]:
    """Return what was wrong with the host, one phrase per trouble; empty if nothing was."""
    troubles = []
    if evidence.manager != "running":
        troubles.append(f"the process that owns the sandbox is {evidence.manager}")
    if evidence.ended_from_outside:
        troubles.append("the sandbox was ended from outside")
    if evidence.host_oom_kills and _was_small(evidence):
        troubles.append("the kernel killed its processes because the host was out of memory")
    if _below(evidence.memory_available_mb, 0, LOW_MEMORY_MB) and _was_small(evidence):
        troubles.append(f"only {evidence.memory_available_mb} MB of memory available")
    if _below(evidence.disk_free_mb, evidence.disk_written_mb, LOW_DISK_MB):
        troubles.append(f"only {evidence.disk_free_mb} MB of disk free")
    if _below(evidence.inodes_free, evidence.files_written, LOW_INODES):
        troubles.append(f"only {evidence.inodes_free} inodes free")
    if evidence.suspended_ms >= SUSPENDED_MS:
        troubles.append(f"the machine was suspended for {evidence.suspended_ms / 1000:.0f} s")
    if abs(evidence.clock_jump_ms) >= CLOCK_JUMP_MS:
        troubles.append(f"the wall clock was set by {evidence.clock_jump_ms / 1000:+.0f} s")
    return tuple(troubles)


def describe_host(evidence: HostEvidence) -> str:
    """Return the readings in one line."""
    return (
        f"memory {_amount(evidence.memory_available_mb)} available, disk {_amount(evidence.disk_free_mb)} free, "
        f"its owner process is {evidence.manager}, clocks steady"
    )


def _was_small(evidence: HostEvidence) -> bool:
    """Return whether the sandbox cannot have exhausted the host's memory on its own."""
    peak, available = evidence.memory_peak_mb, evidence.memory_at_open_mb
    return peak is not None and available is not None and 2 * peak < available


def _below(free: int | None, own: int | None, minimum: int) -> bool:
    """Return whether less than the minimum would be free even without the sandbox's own use."""
    return free is not None and own is not None and free + own < minimum


def _amount(megabytes: int | None) -> str:
    return "unknown" if megabytes is None else f"{megabytes:,} MB"
