"""The part of a sandbox that works through its command server, shared by all backends."""

from __future__ import annotations

import contextlib
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace

from agentbench.core.command import MIB, Command, Completed, Stream
from agentbench.core.errors import PatchInvalid, SandboxError, SandboxLost
from agentbench.core.host_evidence import HostEvidence
from agentbench.sandbox.cgroups import cpu_seconds, megabytes, oom_kills
from agentbench.sandbox.command_channel import ChannelClosed, CommandCall, CommandChannel
from agentbench.sandbox.host_watch import Ending, HostWatch
from agentbench.sandbox.memory_limit import MemoryGauge
from agentbench.sandbox.observation import denied_by_class
from agentbench.sandbox.protocol import ProcessObserver, RunningCommand, Usage
from agentbench.sandbox.server.capture import pack
from agentbench.tree.entry import FileWrite

_SIGKILL = 9
_WRITE_BYTES = 256 * 1024
_READY_SEC = 60.0
_SLACK_MB = 8
"""The kernel's memory limit is at least the limit of the programs; a peak this far below it did not reach it."""


class ServedSandbox(ABC):
    """Implements `protocol.Sandbox` as far as the command channel can. Backends add what only they can observe."""

    def __init__(
        self,
        name: str,
        server: str,
        channel: CommandChannel,
        gauge: MemoryGauge,
        host: HostWatch,
        memory_limit_mb: int,
    ) -> None:
        self.id = name
        self.server = server
        """The interpreter that runs the command server, for `ab doctor`."""
        self._channel = channel
        self._gauge = gauge
        self._host = host
        self._memory_limit_mb = memory_limit_mb
        self._closed = False
        self._losing = threading.Lock()
        self._loss: tuple[str, HostEvidence] | None = None
        """Why the sandbox was lost, and what the host showed at that moment."""
        self._kernel_ooms = 0
        self._harness_ooms = 0
        """Commands killed by the memory monitor, before the kernel had to."""

    @property
    def closed(self) -> bool:
        return self._closed

    def enforce_memory_limit(self) -> float:
        """Kill the largest process if programs use more memory than the limit; the command's result reports it.

        Returns the seconds until the next check.
        """
        if self._closed or not self._channel.busy:
            self._gauge.reset()
            return self._gauge.interval_sec
        measured_us = time.monotonic_ns() // 1000
        if not self._gauge.over():
            return self._gauge.interval_sec
        if self._gauge.stuck:
            self._gauge.kill_programs()
        with contextlib.suppress(ChannelClosed):
            # If the request cannot be sent now, the next check tries again; other sandboxes must not wait.
            # The server ignores a measurement that includes the memory of a process it has killed since.
            self._channel.try_send([b"kill-largest", b"0", b"%d" % measured_us])
        return self._gauge.interval_sec

    def set_environment(self, env: Mapping[str, str]) -> None:
        """Set the variables of commands that start from now on."""
        items = [f"{key}={value}".encode("utf-8", "surrogateescape") for key, value in env.items()]
        # No need to wait: requests are handled in order. If the server died meanwhile, the first command notices.
        with contextlib.suppress(ChannelClosed):
            self._channel.send([b"env", b"0", pack(items)])

    @abstractmethod
    def _kernel_oom_kills(self) -> int | None:
        """Return how many processes the kernel killed for memory so far, which only the host can see. None: unknown."""

    def _add_oom_status(self, completed: Completed) -> Completed:
        """Mark the result if the kernel killed a process for memory meanwhile.

        Raises:
            SandboxLost: it did so although the sandbox was below its own limit.
        """
        count = self._kernel_oom_kills() or 0
        if count <= self._kernel_ooms:
            self._harness_ooms += completed.oom
            return completed
        self._kernel_ooms = count
        if self._below_limit(self._memory_peak_mb()):
            with self._losing:
                lost = self._lost(Ending("the kernel killed a process of it for memory", host_oom_kills=count))
            self._channel.close()
            raise lost
        return replace(completed, oom=True)

    def _below_limit(self, peak_mb: int | None) -> bool:
        """Return whether the sandbox never reached its memory limit, so that the kernel did not enforce it."""
        return peak_mb is not None and peak_mb < self._memory_limit_mb - _SLACK_MB

    def _usage(self, values: Mapping[str, str], disk_mb: float | None, disk_limit_mb: float | None) -> Usage:
        """Build the usage from the contents of cgroup files. The command server counts what they do not state."""
        inside = [] if {"cpu", "memory", "pids"} <= values.keys() else self._usage_inside()
        cpu, memory = cpu_seconds(values.get("cpu", "")), megabytes(values.get("memory", ""))
        pids = values.get("pids", "").strip()
        kernel_ooms = oom_kills(values.get("oom", ""))
        return Usage(
            cpu_sec=inside[2] / 1e6 if cpu is None and inside else cpu,
            memory_peak_mb=megabytes(values.get("memory_peak", "")),
            memory_mb=inside[1] / MIB if memory is None and inside else memory,
            disk_mb=disk_mb,
            processes=int(pids) if pids.isdigit() else (int(inside[0]) if inside else None),
            oom_kills=(kernel_ooms or 0) + self._harness_ooms if self._harness_ooms else kernel_ooms,
            disk_limit_mb=disk_limit_mb,
        )

    def _usage_inside(self) -> list[float]:
        """Return processes, bytes and microseconds as the command server counts them, or nothing."""
        try:
            return [float(field) for field in self._channel.ask(b"stat")]
        except (ChannelClosed, ValueError):
            return []

    @abstractmethod
    def _how_it_ended(self, why: str) -> Completed | Ending:
        """Return the result of a command whose sandbox was killed for exceeding a limit, else how the sandbox was lost."""

    @abstractmethod
    def _memory_peak_mb(self) -> int | None:
        """Return the most memory that the sandbox used, if that is still known."""

    def _on_channel_closed(self, why: str) -> Completed:
        """Return the result of a command whose sandbox was killed for exceeding a limit.

        Raises:
            SandboxLost: it ended or stopped answering without exceeding a limit.
            SandboxError: it is closed.
        """
        if self._closed:
            raise SandboxError(f"sandbox {self.id} is closed")
        with self._losing:
            ended = self._how_it_ended(why) if self._loss is None else Ending(why)
            if isinstance(ended, Completed):
                return ended
            lost = self._lost(ended)
        # From now on every request fails at once.
        self._channel.close()
        raise lost

    def _lost(self, ending: Ending) -> SandboxLost:
        """Return the error of a lost sandbox. The first reason and the host's readings at that moment are kept."""
        if self._loss is None:
            self._loss = (ending.why, self._host.evidence(ending, self._memory_peak_mb()))
        why, evidence = self._loss
        return SandboxLost(f"sandbox {self.id} was lost: {why}", sandbox=self.id, evidence=evidence)

    @property
    def observation_problem(self) -> str | None:
        return self._channel.observation_problem(_READY_SEC) or None

    def denied_calls(self) -> Mapping[str, int]:
        try:
            return denied_by_class(self._channel.ask(b"denied"))
        except (ChannelClosed, ValueError):
            return {}

    def run(self, command: Command, *, observe: ProcessObserver | None = None) -> Completed:
        try:
            call = self._channel.start(command, open_stdin=False, observe=self._if_possible(observe))
        except ChannelClosed as error:
            return self._on_channel_closed(str(error))
        return self.wait_for(call)

    def start(
        self,
        command: Command,
        *,
        on_stdout: Callable[[bytes], None] | None = None,
        on_stderr: Callable[[bytes], None] | None = None,
        observe: ProcessObserver | None = None,
    ) -> RunningCommand:
        try:
            call = self._channel.start(
                command,
                open_stdin=True,
                on_stdout=on_stdout,
                on_stderr=on_stderr,
                observe=self._if_possible(observe),
            )
        except ChannelClosed as error:
            return _EndedCommand(self._on_channel_closed(str(error)))
        return _StartedCommand(self, call)

    def _if_possible(self, observe: ProcessObserver | None) -> ProcessObserver | None:
        return observe if observe is not None and self.observation_problem is None else None

    def wait_for(self, call: CommandCall) -> Completed:
        try:
            return self._add_oom_status(call.wait())
        except ChannelClosed as error:
            return replace(self._on_channel_closed(str(error)), processes=call.programs_until_now)

    def write_files(self, files: Sequence[FileWrite]) -> None:
        try:
            answer = self._channel.ask_in_parts(b"write", _write_requests(files), timeout_sec=300)
        except ChannelClosed as error:
            # Raises if the candidate did not cause it.
            why = self._on_channel_closed(str(error)).stderr.text.strip()
            raise PatchInvalid(f"cannot write files: {why}") from error
        if answer[0] != b"ok":
            raise PatchInvalid(answer[1].decode("utf-8", "replace") if len(answer) > 1 else "refused")

    def kill_processes(self) -> int:
        try:
            return int(self._channel.ask(b"killall")[0])
        except (ChannelClosed, ValueError, IndexError) as error:
            self._on_channel_closed(str(error))
            return 0


def oom_result() -> Completed:
    """Return the result of a command whose whole sandbox was killed for memory by the kernel."""
    return killed_result("its processes exceeded the memory limit", oom=True)


def killed_result(why: str, *, oom: bool = False) -> Completed:
    """Return the result of a command whose whole sandbox was killed because of what ran in it."""
    message = f"the sandbox was killed: {why}\n".encode()
    return Completed(128 + _SIGKILL, Stream.of(b""), Stream.of(message), 0.0, signal=_SIGKILL, oom=oom)


def _write_requests(files: Sequence[FileWrite]) -> Iterator[list[bytes]]:
    """Split the files into requests of bounded size: large files into pieces, small ones together."""
    batch: list[bytes] = []
    size = 0
    for file in files:
        for piece in _pieces(file):
            batch.append(pack(piece))
            size += len(batch[-1])
            if size > _WRITE_BYTES:
                yield [pack(batch), b"more"]
                batch, size = [], 0
    yield [pack(batch), b"last"]


def _pieces(file: FileWrite) -> Iterator[list[bytes]]:
    executable = b"1" if file.executable else b"0"
    if file.symlink is not None:
        yield [file.path, b"link", executable, file.symlink]
    elif file.content is None:
        yield [file.path, b"gone", executable, b""]
    else:
        yield [file.path, b"file", executable, file.content[:_WRITE_BYTES]]
        for start in range(_WRITE_BYTES, len(file.content), _WRITE_BYTES):
            yield [file.path, b"more", executable, file.content[start : start + _WRITE_BYTES]]


class _StartedCommand:
    """Implements `protocol.RunningCommand`."""

    def __init__(self, sandbox: ServedSandbox, call: CommandCall) -> None:
        self._sandbox = sandbox
        self._call = call

    def write(self, data: bytes) -> None:
        self._call.write(data)

    def close_stdin(self) -> None:
        self._call.close_stdin()

    def kill(self) -> None:
        self._call.kill()

    def wait(self) -> Completed:
        return self._sandbox.wait_for(self._call)


class _EndedCommand:
    """A command that could not start because the candidate had ended its sandbox."""

    def __init__(self, completed: Completed) -> None:
        self._completed = completed

    def write(self, data: bytes) -> None:
        """Drop the data: no process reads it."""

    def close_stdin(self) -> None:
        """Do nothing: there is no stdin."""

    def kill(self) -> None:
        """Do nothing: no process is alive."""

    def wait(self) -> Completed:
        return self._completed
