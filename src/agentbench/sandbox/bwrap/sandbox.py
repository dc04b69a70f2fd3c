"""One live bubblewrap sandbox."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Mapping
from dataclasses import dataclass, replace

from agentbench.core.command import Completed
from agentbench.core.errors import SandboxError
from agentbench.sandbox.bwrap.supervisor import ExitReport, SpawnedSandbox
from agentbench.sandbox.cgroups import cpu_seconds, megabytes, oom_kills
from agentbench.sandbox.command_channel import ChannelClosed, CommandChannel
from agentbench.sandbox.memory_limit import MemoryGauge
from agentbench.sandbox.protocol import Usage
from agentbench.sandbox.served_sandbox import ServedSandbox, oom_result
from agentbench.sandbox.server.capture import pack
from agentbench.tree.entry import Entry
from agentbench.tree.folder import FolderTree

_READY_SEC = 60.0
_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


@dataclass(frozen=True, slots=True)
class SpawnResult:
    """A sandbox that was spawned and whose command server has not answered yet."""

    name: str
    spawned: SpawnedSandbox
    files: Mapping[str, str]
    """Its cgroup files, by key of `cgroups.CgroupPlan.files`."""
    memory_bytes: int
    """The memory limit of its programs."""
    server: str
    """The interpreter that runs its command server."""


class BwrapSandbox(ServedSandbox):
    """Implements `protocol.Sandbox`."""

    def __init__(self, result: SpawnResult, env: Mapping[str, str], known: Mapping[bytes, Entry] | None) -> None:
        """
        `env`: the environment of commands. `known`: entries of the workspace that it starts from.

        Raises:
            SandboxError: the command server did not start.
        """
        self._name = result.name
        self._spawned = spawned = result.spawned
        self._files = result.files
        self._server = result.server
        self._known = known
        self._kernel_ooms = 0
        self._harness_ooms = 0
        """Commands killed by the memory monitor, before the kernel had to."""
        super().__init__(CommandChannel(spawned.channel, result.name), self._memory_gauge(result.memory_bytes))
        if not self._channel.wait_ready(_READY_SEC):
            stderr = spawned.stderr()
            self.close()
            raise SandboxError(f"the sandbox did not start: {stderr or 'no answer from the command server'}")
        items = [f"{key}={value}".encode("utf-8", "surrogateescape") for key, value in env.items()]
        # No need to wait: requests are handled in order. If the server died meanwhile, the first command notices.
        with contextlib.suppress(ChannelClosed):
            self._channel.send([b"env", b"0", pack(items)])
        self._workspace_fd = os.open("workspace", _DIRECTORY, dir_fd=spawned.merged_fd)
        self._changed_fd = os.open("workspace", _DIRECTORY, dir_fd=spawned.upper_fd)

    @property
    def id(self) -> str:
        return self._name

    @property
    def server(self) -> str:
        return self._server

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
        values = {key: self._read(key, report) for key in self._files}
        inside = [] if {"cpu", "memory", "pids"} <= set(self._files) else self._usage_from_server()
        memory = megabytes(values.get("memory", ""))
        cpu = cpu_seconds(values.get("cpu", ""))
        pids = values.get("pids", "").strip()
        return Usage(
            cpu_sec=inside[2] / 1e6 if cpu is None and inside else cpu,
            memory_peak_mb=megabytes(values.get("memory_peak", "")),
            memory_mb=inside[1] / (1 << 20) if memory is None and inside else memory,
            disk_mb=self._disk_mb(),
            processes=int(pids) if pids.isdigit() else (int(inside[0]) if inside else None),
            oom_kills=self._oom_total(oom_kills(values.get("oom", ""))),
        )

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
            raise SandboxError(f"sandbox {self._name} could not be killed")

    def _memory_gauge(self, limit: int) -> MemoryGauge | None:
        gauge = MemoryGauge(self._files, limit, lambda: int((self._disk_mb() or 0) * (1 << 20)))
        return gauge if gauge.works else None

    def _disk_mb(self) -> float | None:
        """Return the size of what was written, or None if the writable layer is no file system of its own."""
        layer = os.fstatvfs(self._spawned.upper_fd)
        if os.major(os.fstat(self._spawned.upper_fd).st_dev):  # a device: the host's disk, not a tmpfs
            return None
        return (layer.f_blocks - layer.f_bfree) * layer.f_frsize / (1 << 20)

    def _usage_from_server(self) -> list[float]:
        try:
            return [float(field) for field in self._channel.ask(b"stat")]
        except (ChannelClosed, ValueError):
            return []

    def _read(self, key: str, report: ExitReport | None) -> str:
        path = self._files[key]
        if report is not None:
            return report.evidence.get(path, "")
        try:
            with open(path, encoding="ascii") as file:
                return file.read()
        except OSError:
            return ""

    def _add_oom_status(self, completed: Completed) -> Completed:
        count = oom_kills(self._read("oom", None)) or 0 if "oom" in self._files else 0
        if count <= self._kernel_ooms:
            self._harness_ooms += completed.oom
            return completed
        self._kernel_ooms = count
        return replace(completed, oom=True)

    def _on_channel_closed(self, why: str) -> Completed:
        if self._closed:
            raise SandboxError(f"sandbox {self._name} is closed")
        report = self._spawned.wait(5.0)
        if report is None:
            raise SandboxError(f"sandbox {self._name} does not answer: {why}")
        kills = oom_kills(report.evidence.get(self._files.get("oom", ""), "")) or 0
        if kills:
            self._kernel_ooms = kills
            return oom_result()
        details = self._spawned.stderr() or why
        raise SandboxError(
            f"sandbox {self._name} ended unexpectedly (wait status {report.status}): {details}",
            remedy="look for killed processes in the kernel log (`dmesg`)",
        )

    def _oom_total(self, by_kernel: int | None) -> int | None:
        return (by_kernel or 0) + self._harness_ooms if self._harness_ooms else by_kernel
