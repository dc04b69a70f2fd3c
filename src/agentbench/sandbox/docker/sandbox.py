"""One running container."""

from __future__ import annotations

import os
import select
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from agentbench.core.command import MIB, Command, Completed
from agentbench.core.dataclass import dataclass
from agentbench.core.errors import AgentBenchError, PatchInvalid, SandboxError, SandboxLost
from agentbench.core.host_evidence import ManagerState
from agentbench.sandbox.cgroups import megabytes
from agentbench.sandbox.command_channel import ChannelClosed, CommandChannel
from agentbench.sandbox.docker.container_config import SEEDS_DIR
from agentbench.sandbox.docker.container_events import ContainerStatus
from agentbench.sandbox.docker.engine import Engine
from agentbench.sandbox.docker.tree import ChannelTree
from agentbench.sandbox.docker.usage import Meter
from agentbench.sandbox.host_watch import Ending, HostWatch
from agentbench.sandbox.protocol import Limits, Usage
from agentbench.sandbox.served_sandbox import ServedSandbox, killed_result, oom_result
from agentbench.tree.entry import Entry, FileWrite

_EXIT_SEC = 5.0
_REPORT_SEC = 30.0
_KILL_SEC = 30.0
_KILLED = "137"


@dataclass(frozen=True, slots=True)
class Container:
    """A started container and everything the harness uses to control and measure it."""

    name: str
    engine: Engine
    status: ContainerStatus
    meter: Meter
    pid: int
    """Host pid of the container's first process, or 0 if it is not visible."""
    server: str
    """Description of the interpreter that runs the command server."""
    workdir: str
    memory_folders: tuple[str, ...]
    """Folders inside whose files are in memory."""
    limits: Limits
    known: Mapping[bytes, Entry] | None


class DockerSandbox(ServedSandbox):
    """Implements `protocol.Sandbox`."""

    def __init__(
        self,
        container: Container,
        channel: CommandChannel,
        host: HostWatch,
        on_close: Callable[[DockerSandbox], None],
    ) -> None:
        gauge = container.meter.gauge(container.limits.memory_mb * MIB, container.memory_folders)
        super().__init__(container.name, container.server, channel, gauge, host, container.limits.memory_mb)
        self._container = container
        self._on_close = on_close
        self._seeded: tuple[tuple[str, ...], int] | None = None
        self._exceeded_mb: float | None = None
        """What the container had written when it was ended for it."""
        self._pidfd = _open_pidfd(container.pid)

    @property
    def cheap_to_measure(self) -> bool:
        return self._container.meter.cheap

    def copy_seeds(self, folders: Sequence[str], seeds_mb: int) -> None:
        """Copy the image's seeds into `folders`, each of which is a tmpfs.

        Raises:
            SandboxError: they do not fit, or the image has no `cp`.
        """
        line = " && ".join(f'cp -a "{SEEDS_DIR}{folder}/." "{folder}/"' for folder in folders)
        command = Command(line=f"{line} && mkdir -p '{self._container.workdir}'", cwd="/", timeout_sec=300)
        try:
            done = self.run(command)
        except SandboxLost as error:
            raise SandboxError(f"the sandbox did not start: {error.message}") from error
        if not done.ok:
            raise SandboxError(f"cannot copy the workspace into its tmpfs: {done.stderr.kept[-500:]!r}")
        self._seeded = (tuple(folders), seeds_mb)

    def write_files(self, files: Sequence[FileWrite]) -> None:
        # A monitored container would accept the files and then be ended for exceeding its limit.
        if sum(len(file.content or b"") for file in files) > self._container.limits.disk_mb * MIB:
            raise PatchInvalid(f"cannot write files: no space left (disk limit {self._container.limits.disk_mb} MB)")
        super().write_files(files)

    def tree(self) -> ChannelTree:
        return self.tree_at(self._container.workdir, known=self._container.known)

    def tree_at(self, root: str, *, known: Mapping[bytes, Entry] | None = None) -> ChannelTree:
        return ChannelTree(self._channel, root, known=known, on_death=self._unreadable)

    def usage(self) -> Usage:
        meter = self._container.meter
        if self._exceeded_mb is not None:
            disk_mb: float | None = self._exceeded_mb  # the engine may be removing the layer
        else:
            disk_mb = meter.layer().megabytes if self._seeded is None else self._tmpfs_mb(*self._seeded)
        return self._usage(meter.values(), disk_mb, self._container.limits.disk_mb)

    def enforce_disk_limit(self) -> None:
        """End the container if it exceeds its disk or file limit."""
        layer = self._container.meter.layer()
        limits, status = self._container.limits, self._container.status
        if self._closed:
            return
        if layer.megabytes is not None and layer.megabytes > limits.disk_mb:
            self._exceeded_mb = layer.megabytes
            status.limit_exceeded = (
                f"it wrote {layer.megabytes:.0f} MB, more than its disk limit of {limits.disk_mb} MB"
            )
        elif layer.files is not None and layer.files > limits.inodes:
            status.limit_exceeded = f"it created {layer.files} files, more than its limit of {limits.inodes}"
        elif layer.too_deep:
            status.limit_exceeded = "it nested folders too deeply to measure its use of the disk"
        if status.limit_exceeded:
            self._kill()

    def close(self) -> None:
        if self._closed:
            return
        self._closed = True
        # The first process exits when its connection closes, and with it every process of the container.
        self._channel.close()
        try:
            if not self._has_exited(_EXIT_SEC):
                self._kill()
                if not self._has_exited(_KILL_SEC):
                    raise self._lost(Ending("it cannot be killed", self._manager()))
        finally:
            if self._pidfd >= 0:
                os.close(self._pidfd)
            self._on_close(self)

    def _has_exited(self, timeout_sec: float) -> bool:
        if self._pidfd >= 0:
            return bool(select.select([self._pidfd], [], [], timeout_sec)[0])
        return self._container.status.died.wait(timeout_sec)

    def _kill(self) -> None:
        self._container.engine.run("kill", self.id, timeout_sec=_KILL_SEC)

    def _tmpfs_mb(self, folders: Sequence[str], seeds_mb: int) -> float | None:
        # Not with `df`: code inside could put another program of that name into the environment.
        try:
            used = int(self._channel.ask(b"space", [os.fsencode(folder) for folder in folders])[0])
        except (ChannelClosed, ValueError, IndexError):
            return None
        return max(0.0, used / MIB - seeds_mb)

    def _kernel_oom_kills(self) -> int | None:
        return self._container.meter.oom_kills()

    def _add_oom_status(self, completed: Completed) -> Completed:
        completed = super()._add_oom_status(completed)
        only_engine_knows = self._container.status.oom and self._kernel_oom_kills() is None
        return replace(completed, oom=True) if only_engine_knows else completed

    def _memory_peak_mb(self) -> int | None:
        # Unknown once the container is dead: the engine removes its cgroup.
        peak = megabytes(self._container.meter.values().get("memory_peak", ""))
        return None if peak is None else int(peak)

    def _manager(self) -> ManagerState:
        return "gone" if self._container.status.engine_lost or self._container.engine.gone() else "running"

    def _how_it_ended(self, why: str) -> Completed | Ending:
        status = self._container.status
        exited = self._has_exited(_EXIT_SEC)
        # The engine's account of the end follows, after a moment or much later on a busy machine, unless the engine is gone.
        reported = status.died.wait(_REPORT_SEC if exited else _EXIT_SEC) and not status.engine_lost
        if status.limit_exceeded:
            return killed_result(status.limit_exceeded)
        kills = max(int(status.oom), self._kernel_ooms, self._kernel_oom_kills() or 0)
        killed = exited and status.exit_code in {_KILLED, ""} and kills > 0
        # If the engine has removed the cgroup, the peak is unknown and the kill counts as one by the container's own limit.
        if killed and not self._below_limit(self._memory_peak_mb()):
            return oom_result()
        # Under a hard disk limit, all files are in memory. Otherwise a container can hide deleted files from measurements.
        written = None if self._seeded is None else 0
        account = f"it ended with exit code {status.exit_code or 'unknown'}" if reported else "it does not answer"
        if exited and not reported:
            account = "it ended"
        return Ending(
            f"{account} ({why})",
            self._manager(),
            from_outside=status.ended_by_engine,
            host_oom_kills=kills if killed else 0,
            disk_written_mb=written,
            files_written=written,
        )

    def _unreadable(self, why: str) -> AgentBenchError:
        """Return the error for a workspace that cannot be read: `PatchInvalid` if a limit ended the sandbox, else its loss."""
        try:
            stderr = self._on_channel_closed(why).stderr.text.strip()
        except SandboxError as error:
            return error
        return PatchInvalid(f"cannot read the workspace: {stderr}")


def _open_pidfd(pid: int) -> int:
    if pid <= 0:
        return -1
    try:
        return os.pidfd_open(pid)
    except OSError:
        return -1
