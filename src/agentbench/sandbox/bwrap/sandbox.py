"""One live bubblewrap sandbox."""

from __future__ import annotations

import os
from collections.abc import Mapping

from agentbench.core.command import MIB, Completed
from agentbench.core.errors import SandboxError
from agentbench.sandbox.bwrap.supervisor import ExitReport, SpawnedSandbox
from agentbench.sandbox.cgroups import megabytes, oom_kills, read_text
from agentbench.sandbox.command_channel import CommandChannel
from agentbench.sandbox.host_watch import Ending, HostWatch
from agentbench.sandbox.memory_limit import MemoryGauge
from agentbench.sandbox.protocol import Usage
from agentbench.sandbox.served_sandbox import ServedSandbox, oom_result
from agentbench.tree.entry import Entry
from agentbench.tree.folder import FolderTree

_READY_SEC = 60.0
_EXIT_SEC = 5.0
_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


class BwrapSandbox(ServedSandbox):
    """Implements `protocol.Sandbox`."""

    def __init__(
        self,
        spawned: SpawnedSandbox,
        files: Mapping[str, str],
        memory_bytes: int,
        *,
        server: str,
        known: Mapping[bytes, Entry] | None,
        host: HostWatch,
    ) -> None:
        """
        `files`: its cgroup files, by key of `cgroups.CgroupPlan.files`. `memory_bytes`: the memory limit of its
        programs. `server`: the interpreter of the command server. `known`: entries of the workspace that it starts
        from. `host`: the host's state before it was started.

        Raises:
            SandboxError: the command server did not start.
        """
        self._spawned = spawned
        self._files = files
        self._known = known
        gauge = MemoryGauge(files, memory_bytes, lambda: int((self._disk_mb() or 0) * MIB))
        channel = CommandChannel(spawned.channel, spawned.name)
        super().__init__(spawned.name, server, channel, gauge, host, memory_bytes // MIB)
        if not self._channel.wait_ready(_READY_SEC):
            stderr = spawned.stderr()
            self.close()
            raise SandboxError(f"the sandbox did not start: {stderr or 'no answer from the command server'}")
        self._workspace_fd = os.open("workspace", _DIRECTORY, dir_fd=spawned.merged_fd)
        self._changed_fd = os.open("workspace", _DIRECTORY, dir_fd=spawned.upper_fd)

    @property
    def trees(self) -> tuple[int, int]:
        """Descriptors of the whole merged tree and of the whole upper layer, for freezing."""
        return self._spawned.merged_fd, self._spawned.upper_fd

    def tree(self) -> FolderTree:
        """Return the workspace. It is readable until the sandbox is closed, which owns the descriptor."""
        known, changed = (self._known, self._changed_fd) if self._known is not None else (None, None)
        return FolderTree(self._workspace_fd, owns=False, known=known, changed_fd=changed)

    def usage(self) -> Usage:
        report = self._spawned.wait(0) if self._channel.why else None
        values = {key: self._read(key, report) for key in self._files if key != "memory_stat"}
        size = os.fstatvfs(self._spawned.upper_fd)
        disk_mb = self._disk_mb()
        return self._usage(values, disk_mb, None if disk_mb is None else size.f_blocks * size.f_frsize / MIB)

    def close(self) -> None:
        if self._closed:
            return
        self._closed = True
        for name in ("_workspace_fd", "_changed_fd"):
            if hasattr(self, name):
                os.close(getattr(self, name))
        report = self._spawned.end()
        self._channel.close()
        if report is None:
            raise self._lost(Ending("it cannot be killed", self._spawned.spawner.state()))

    def _disk_mb(self) -> float | None:
        """Return the size of what was written, or None if the writable layer is no file system of its own."""
        layer = os.fstatvfs(self._spawned.upper_fd)
        if os.major(os.fstat(self._spawned.upper_fd).st_dev):  # a device: the host's disk, not a tmpfs
            return None
        return (layer.f_blocks - layer.f_bfree) * layer.f_frsize / MIB

    def _read(self, key: str, report: ExitReport | None) -> str:
        path = self._files[key]
        return read_text(path) if report is None else report.evidence.get(path, "")

    def _kernel_oom_kills(self) -> int | None:
        return oom_kills(self._read("oom", None)) if "oom" in self._files else None

    def _memory_peak_mb(self) -> int | None:
        report = self._spawned.wait(0)
        peak = megabytes(self._read("memory_peak", report)) if "memory_peak" in self._files else None
        return None if peak is None else int(peak)

    def _how_it_ended(self, why: str) -> Completed | Ending:
        report = self._spawned.wait(_EXIT_SEC)
        # Files are in memory unless the writable layer is a folder of the host, whose growth is not measured.
        written = None if self._disk_mb() is None else 0
        manager = self._spawned.spawner.state()
        if report is None:
            return Ending(f"it does not answer ({why})", manager, disk_written_mb=written, files_written=written)
        if report.status is None:
            # Only the end of the spawner closes the control socket without a report.
            return Ending(f"the sandbox spawner ended ({why})", "gone", disk_written_mb=written, files_written=written)
        kills = oom_kills(self._read("oom", report)) if "oom" in self._files else None
        by_host = kills if kills and self._below_limit(self._memory_peak_mb()) else 0
        if kills and not by_host:
            self._kernel_ooms = kills
            return oom_result()
        # Bubblewrap's outer process is not visible inside. It reports the end of PID 1 by a signal as an exit status.
        killed = os.WIFSIGNALED(report.status) and kills == 0
        return Ending(
            f"it ended with wait status {report.status} ({self._spawned.stderr() or why})",
            manager,
            from_outside=killed,
            host_oom_kills=by_host,
            disk_written_mb=written,
            files_written=written,
        )
