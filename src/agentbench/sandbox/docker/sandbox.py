"""One live container."""

from __future__ import annotations

import os
import select
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from agentbench.core.command import MIB, Command, Completed
from agentbench.core.errors import PatchInvalid, SandboxError
from agentbench.sandbox.command_channel import ChannelClosed, CommandChannel
from agentbench.sandbox.docker.container_events import Fate
from agentbench.sandbox.docker.engine import Engine
from agentbench.sandbox.docker.options import SEEDS
from agentbench.sandbox.docker.tree import ChannelTree
from agentbench.sandbox.docker.usage import Meter
from agentbench.sandbox.protocol import Limits, Usage
from agentbench.sandbox.served_sandbox import ServedSandbox, killed_result, oom_result
from agentbench.sandbox.server.capture import pack
from agentbench.tree.entry import Entry, FileWrite

_DEATH_SEC = 5.0
_KILL_SEC = 15.0
_KILLED = "137"


@dataclass(frozen=True, slots=True)
class Body:
    """What a box is made of."""

    name: str
    engine: Engine
    fate: Fate
    meter: Meter
    pid: int
    """Of its first process, as this host sees it; 0 when it does not."""
    server: str
    """What runs its commands."""
    workdir: str
    in_memory: tuple[str, ...]
    """Places inside whose files live in memory."""
    limits: Limits
    known: Mapping[bytes, Entry] | None


class DockerBox(ServedSandbox):
    """Implements `protocol.Sandbox`."""

    def __init__(self, body: Body, channel: CommandChannel, on_close: Callable[[DockerBox], None]) -> None:
        super().__init__(channel, body.meter.gauge(body.limits.memory_mb * MIB, body.in_memory))
        self._body = body
        self._on_close = on_close
        self._ooms = 0
        self._held = 0
        """Commands that we ended for memory ourselves, before the kernel had to."""
        self._planted: tuple[tuple[str, ...], int] | None = None
        self._pidfd = _pidfd(body.pid)

    @property
    def id(self) -> str:
        return self._body.name

    @property
    def server(self) -> str:
        return self._body.server

    def set_environment(self, env: Mapping[str, str]) -> None:
        """For commands that start from now on."""
        items = [f"{key}={value}".encode("utf-8", "surrogateescape") for key, value in env.items()]
        try:
            self._channel.ask(b"env", [pack(items)])
        except ChannelClosed as error:
            self._on_channel_closed(str(error))

    def plant(self, places: Sequence[str], seeds_mb: int) -> None:
        """Copy the image's seeds into the file systems that are to hold them.

        Raises:
            SandboxError: they do not fit, or the image has no `cp`.
        """
        line = " && ".join(f'cp -a "{SEEDS}{place}/." "{place}/"' for place in places)
        done = self.run(Command(line=f"{line} && mkdir -p '{self._body.workdir}'", cwd="/", timeout_sec=300))
        if not done.ok:
            raise SandboxError(f"the workspace cannot be placed in its file system: {done.stderr.kept[-500:]!r}")
        self._planted = (tuple(places), seeds_mb)

    def write_files(self, files: Sequence[FileWrite]) -> None:
        # Without a file system of its own a container would take it and be ended for it afterwards.
        if sum(len(file.content or b"") for file in files) > self._body.limits.disk_mb * MIB:
            msg = f"files cannot be written: no space left (the disk limit is {self._body.limits.disk_mb} MB)"
            raise PatchInvalid(msg)
        super().write_files(files)

    def tree(self) -> ChannelTree:
        return self.tree_at(self._body.workdir, known=self._body.known)

    def tree_at(self, root: str, *, known: Mapping[bytes, Entry] | None = None) -> ChannelTree:
        return ChannelTree(self._channel, root, known=known, on_death=self._unreadable)

    def usage(self) -> Usage:
        found = self._body.meter.usage([] if self._body.meter.complete else self._inside_usage())
        if self._held:
            found = replace(found, oom_kills=(found.oom_kills or 0) + self._held)
        return found if self._planted is None else replace(found, disk_mb=self._planted_mb(*self._planted))

    def _planted_mb(self, places: Sequence[str], seeds_mb: int) -> float | None:
        done = self.run(Command(argv=("df", "-k", "--output=used", *places), cwd="/", timeout_sec=20))
        used = [int(line) for line in done.stdout.kept.split() if line.isdigit()]
        return max(0.0, sum(used) / 1024 - seeds_mb) if done.ok and used else None

    def hold_disk(self) -> None:
        """End a container that holds more than its limit."""
        used, files = self._body.meter.layer()
        limits = self._body.limits
        if self._closed:
            return
        if used is not None and used > limits.disk_mb:
            self._body.fate.ended_for = f"it wrote {used:.0f} MB, more than its disk limit of {limits.disk_mb} MB"
        elif files is not None and files > limits.inodes:
            self._body.fate.ended_for = f"it made {files} files, more than its limit of {limits.inodes}"
        if self._body.fate.ended_for:
            self._kill()

    @property
    def cheap_to_measure(self) -> bool:
        return self._body.meter.cheap

    def close(self) -> None:
        if self._closed:
            return
        self._closed = True
        # The first process ends when its connection does, and with it everything in the container.
        self._channel.close()
        try:
            if not self._dead(_DEATH_SEC):
                self._kill()
                if not self._dead(_KILL_SEC):
                    raise SandboxError(f"container {self._body.name} could not be ended")
        finally:
            if self._pidfd >= 0:
                os.close(self._pidfd)
            self._on_close(self)

    def _dead(self, timeout_sec: float) -> bool:
        if self._pidfd >= 0:
            return bool(select.select([self._pidfd], [], [], timeout_sec)[0])
        return self._body.fate.died.wait(timeout_sec)

    def _kill(self) -> None:
        self._body.engine.call("kill", self._body.name, timeout_sec=_KILL_SEC)

    def _inside_usage(self) -> list[float]:
        try:
            return [float(field) for field in self._channel.ask(b"stat")]
        except (ChannelClosed, ValueError):
            return []

    def _add_oom_status(self, completed: Completed) -> Completed:
        count = self._body.meter.oom_kills()
        if count is None or count <= self._ooms:
            self._held += completed.oom
            return replace(completed, oom=True) if count is None and self._body.fate.oom else completed
        self._ooms = count
        return replace(completed, oom=True)

    def _on_channel_closed(self, why: str) -> Completed:
        if self._closed:
            raise SandboxError(f"container {self._body.name} is closed")
        fate = self._body.fate
        if not fate.died.wait(_DEATH_SEC):
            raise SandboxError(f"container {self._body.name} does not answer: {why}")
        if fate.ended_for:
            return killed_result(fate.ended_for)
        if fate.exit_code in {_KILLED, ""} and (fate.oom or self._ooms or (self._body.meter.oom_kills() or 0)):
            return oom_result()
        if fate.lost:
            raise SandboxError(f"the docker engine went away under container {self._body.name}")
        raise SandboxError(f"container {self._body.name} ended unexpectedly (exit code {fate.exit_code}): {why}")

    def _unreadable(self, why: str) -> None:
        """
        Raises:
            PatchInvalid: the candidate ended its own sandbox.
            SandboxError: ours.
        """
        said = self._on_channel_closed(why).stderr.kept.decode("utf-8", "replace").strip()
        raise PatchInvalid(f"the workspace cannot be read: {said}")


def _pidfd(pid: int) -> int:
    if pid <= 0:
        return -1
    try:
        return os.pidfd_open(pid)
    except OSError:
        return -1
