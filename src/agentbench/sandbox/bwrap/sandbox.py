"""One live bubblewrap sandbox."""

from __future__ import annotations

import os
from collections.abc import Mapping

from agentbench.core.command import MIB, Completed
from agentbench.core.errors import SandboxError
from agentbench.sandbox.bwrap.supervisor import ExitReport, SpawnedSandbox
from agentbench.sandbox.cgroups import oom_kills, read_text
from agentbench.sandbox.command_channel import CommandChannel
from agentbench.sandbox.memory_limit import MemoryGauge
from agentbench.sandbox.protocol import Usage
from agentbench.sandbox.served_sandbox import ServedSandbox, oom_result
from agentbench.tree.entry import Entry
from agentbench.tree.folder import FolderTree

_READY_SEC = 60.0
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
        env: Mapping[str, str],
        known: Mapping[bytes, Entry] | None,
    ) -> None:
        """
        `files`: its cgroup files, by key of `cgroups.CgroupPlan.files`. `memory_bytes`: the memory limit of its
        programs. `server`: the interpreter of the command server. `env`: the environment of commands. `known`:
        entries of the workspace that it starts from.

        Raises:
            SandboxError: the command server did not start.
        """
        self._spawned = spawned
        self._files = files
        self._known = known
        gauge = MemoryGauge(files, memory_bytes, lambda: int((self._disk_mb() or 0) * MIB))
        super().__init__(spawned.name, server, CommandChannel(spawned.channel, spawned.name), gauge)
        if not self._channel.wait_ready(_READY_SEC):
            stderr = spawned.stderr()
            self.close()
            raise SandboxError(f"the sandbox did not start: {stderr or 'no answer from the command server'}")
        self.set_environment(env)
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
            raise SandboxError(f"sandbox {self.id} could not be killed")

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

    def _on_channel_closed(self, why: str) -> Completed:
        if self._closed:
            raise SandboxError(f"sandbox {self.id} is closed")
        report = self._spawned.wait(5.0)
        if report is None:
            raise SandboxError(f"sandbox {self.id} does not answer: {why}")
        kills = oom_kills(report.evidence.get(self._files.get("oom", ""), "")) or 0
        if kills:
            self._kernel_ooms = kills
            return oom_result()
        details = self._spawned.stderr() or why
        raise SandboxError(
            f"sandbox {self.id} ended unexpectedly (wait status {report.status}): {details}",
            remedy="look for killed processes in the kernel log (`dmesg`)",
        )
