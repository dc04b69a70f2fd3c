"""One live bubblewrap sandbox."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Mapping
from dataclasses import dataclass, replace

from agentbench.core.command import Completed
from agentbench.core.errors import SandboxError
from agentbench.sandbox.bwrap.spawner import Ending, Spawned
from agentbench.sandbox.cgroups import cpu_seconds, megabytes, oom_kills
from agentbench.sandbox.command_channel import Channel, ChannelClosed
from agentbench.sandbox.memory_limit import Gauge
from agentbench.sandbox.protocol import Usage
from agentbench.sandbox.served_sandbox import ServedBox, ended_by_memory
from agentbench.sandbox.server.capture import pack
from agentbench.tree.entry import Entry
from agentbench.tree.folder import FolderTree

_READY_SEC = 60.0
_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


@dataclass(frozen=True, slots=True)
class Started:
    """A sandbox that was started and has not answered yet."""

    name: str
    spawned: Spawned
    files: Mapping[str, str]
    """Its cgroup files, by meaning."""
    memory_bytes: int
    """What its programs may hold."""
    server: str
    """What runs its commands."""


class Box(ServedBox):
    """Implements `protocol.Sandbox`."""

    def __init__(self, started: Started, env: Mapping[str, str], known: Mapping[bytes, Entry] | None) -> None:
        """
        `env` is what commands get; `known` are the entries of the workspace it started from.

        Raises:
            SandboxError: the command server did not come up.
        """
        self._name = started.name
        self._spawned = spawned = started.spawned
        self._files = started.files
        self._server = started.server
        self._known = known
        self._ooms = 0
        self._held = 0
        """Commands that we ended for memory ourselves, before the kernel had to."""
        super().__init__(Channel(spawned.channel, started.name), self._memory_gauge(started.memory_bytes))
        if not self._channel.wait_ready(_READY_SEC):
            words = spawned.last_words()
            self.close()
            raise SandboxError(f"the sandbox did not start: {words or 'no answer from the command server'}")
        items = [f"{key}={value}".encode("utf-8", "surrogateescape") for key, value in env.items()]
        # Not waited for: requests are taken in order. A server that died meanwhile is met by the first command.
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
        """Readable until the sandbox is closed: the descriptor is the sandbox's own."""
        known, changed = (self._known, self._changed_fd) if self._known is not None else (None, None)
        return FolderTree(self._workspace_fd, owns=False, known=known, changed_fd=changed)

    def usage(self) -> Usage:
        ending = self._spawned.ending(0) if self._channel.why else None
        read = {key: self._read(key, ending) for key in self._files}
        inside = [] if {"cpu", "memory", "pids"} <= set(self._files) else self._inside_usage()
        memory = megabytes(read.get("memory", ""))
        cpu = cpu_seconds(read.get("cpu", ""))
        pids = read.get("pids", "").strip()
        return Usage(
            cpu_sec=inside[2] / 1e6 if cpu is None and inside else cpu,
            memory_peak_mb=megabytes(read.get("memory_peak", "")),
            memory_mb=inside[1] / (1 << 20) if memory is None and inside else memory,
            disk_mb=self._disk_mb(),
            processes=int(pids) if pids.isdigit() else (int(inside[0]) if inside else None),
            oom_kills=_sum(oom_kills(read.get("oom", "")), self._held),
        )

    def close(self) -> None:
        if self._closed:
            return
        self._closed = True
        for name in ("_workspace_fd", "_changed_fd"):
            if hasattr(self, name):
                os.close(getattr(self, name))
        ending = self._spawned.end()
        self._channel.close()
        if ending is None:
            raise SandboxError(f"sandbox {self._name} could not be ended")

    def _memory_gauge(self, limit: int) -> Gauge | None:
        gauge = Gauge(self._files, limit, lambda: int((self._disk_mb() or 0) * (1 << 20)))
        return gauge if gauge.works else None

    def _disk_mb(self) -> float | None:
        """What is written, where the writable layer is a file system of its own."""
        layer = os.fstatvfs(self._spawned.upper_fd)
        if os.major(os.fstat(self._spawned.upper_fd).st_dev):  # a device: the host's disk, not a tmpfs of ours
            return None
        return (layer.f_blocks - layer.f_bfree) * layer.f_frsize / (1 << 20)

    def _inside_usage(self) -> list[float]:
        try:
            return [float(field) for field in self._channel.ask(b"stat")]
        except (ChannelClosed, ValueError):
            return []

    def _read(self, key: str, ending: Ending | None) -> str:
        path = self._files[key]
        if ending is not None:
            return ending.evidence.get(path, "")
        try:
            with open(path, encoding="ascii") as file:
                return file.read()
        except OSError:
            return ""

    def _finish(self, completed: Completed) -> Completed:
        """Add what only the host can see: whether the kernel killed for memory meanwhile."""
        count = oom_kills(self._read("oom", None)) or 0 if "oom" in self._files else 0
        if count <= self._ooms:
            self._held += completed.oom
            return completed
        self._ooms = count
        return replace(completed, oom=True)

    def _after_death(self, why: str) -> Completed:
        """The channel ended. By the candidate's doing: a result that says so. Otherwise ours.

        Raises:
            SandboxError: nothing shows that the candidate did it.
        """
        if self._closed:
            raise SandboxError(f"sandbox {self._name} is closed")
        ending = self._spawned.ending(5.0)
        if ending is None:
            raise SandboxError(f"sandbox {self._name} does not answer: {why}")
        kills = oom_kills(ending.evidence.get(self._files.get("oom", ""), "")) or 0
        if kills:
            self._ooms = kills
            return ended_by_memory()
        words = self._spawned.last_words()
        raise SandboxError(f"sandbox {self._name} ended unexpectedly ({ending.status}): {words or why}")


def _sum(by_kernel: int | None, by_us: int) -> int | None:
    return by_kernel if not by_us else (by_kernel or 0) + by_us
