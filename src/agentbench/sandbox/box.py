"""One live bubblewrap sandbox."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace

from agentbench.core.canonical import sha256_hex
from agentbench.core.command import Command, Completed, Stream
from agentbench.core.errors import PatchInvalid, SandboxError
from agentbench.sandbox.cgroups import cpu_seconds, megabytes, oom_kills
from agentbench.sandbox.channel import Channel, ChannelClosed, CommandCall
from agentbench.sandbox.inside.capture import pack
from agentbench.sandbox.protocol import Running, Usage
from agentbench.sandbox.spawner import Ending, Spawned
from agentbench.tree.entry import Entry, FileWrite
from agentbench.tree.folder import FolderTree

_READY_SEC = 60.0
_SIGKILL = 9
_WRITE_BYTES = 256 * 1024
_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


class Box:
    """Implements `protocol.Sandbox`."""

    def __init__(
        self, name: str, spawned: Spawned, files: Mapping[str, str], known: Mapping[bytes, Entry] | None
    ) -> None:
        """
        `files` are the cgroup files of this sandbox by meaning; `known` the entries of the workspace it started from.

        Raises:
            SandboxError: the command server did not come up.
        """
        self._name = name
        self._spawned = spawned
        self._files = files
        self._known = known
        self._ooms = 0
        self._closed = False
        self._channel = Channel(spawned.channel, name)
        if not self._channel.wait_ready(_READY_SEC):
            words = spawned.last_words()
            self.close()
            raise SandboxError(f"the sandbox did not start: {words or 'no answer from the command server'}")
        self._workspace_fd = os.open("workspace", _DIRECTORY, dir_fd=spawned.merged_fd)
        self._changed_fd = os.open("workspace", _DIRECTORY, dir_fd=spawned.upper_fd)

    @property
    def id(self) -> str:
        return self._name

    @property
    def trees(self) -> tuple[int, int]:
        """Descriptors of the whole merged tree and of the whole upper layer, for freezing."""
        return self._spawned.merged_fd, self._spawned.upper_fd

    def run(self, command: Command) -> Completed:
        try:
            return self._finish(self._channel.start(command, open_stdin=False).wait())
        except ChannelClosed as error:
            return self._after_death(str(error))

    def start(
        self,
        command: Command,
        *,
        on_stdout: Callable[[bytes], None] | None = None,
        on_stderr: Callable[[bytes], None] | None = None,
    ) -> Running:
        try:
            call = self._channel.start(command, open_stdin=True, on_stdout=on_stdout, on_stderr=on_stderr)
        except ChannelClosed as error:
            return _Dead(self._after_death(str(error)))
        return _Started(self, call)

    def settle(self, call: CommandCall) -> Completed:
        try:
            return self._finish(call.wait())
        except ChannelClosed as error:
            return self._after_death(str(error))

    def write_files(self, files: Sequence[FileWrite]) -> None:
        try:
            answer = self._channel.ask_in_parts(b"write", _write_requests(files), timeout_sec=300)
        except ChannelClosed as error:
            # Their doing or ours: raises when it is ours.
            why = self._after_death(str(error)).stderr.kept.decode("utf-8", "replace").strip()
            raise PatchInvalid(f"files cannot be written: {why}") from error
        if answer[0] != b"ok":
            raise PatchInvalid(answer[1].decode("utf-8", "replace") if len(answer) > 1 else "refused")

    def kill_processes(self) -> int:
        try:
            return int(self._channel.ask(b"killall")[0])
        except (ChannelClosed, ValueError, IndexError) as error:
            self._after_death(str(error))
            return 0

    def tree(self) -> FolderTree:
        known, changed = (self._known, self._changed_fd) if self._known is not None else (None, None)
        return FolderTree(os.dup(self._workspace_fd), known=known, changed_fd=changed)

    def usage(self) -> Usage:
        ending = self._spawned.ending(0) if self._channel.why else None
        read = {key: self._read(key, ending) for key in self._files}
        disk = os.fstatvfs(self._spawned.upper_fd)
        inside = [] if {"cpu", "memory", "pids"} <= set(self._files) else self._inside_usage()
        memory = megabytes(read.get("memory", ""))
        cpu = cpu_seconds(read.get("cpu", ""))
        pids = read.get("pids", "").strip()
        return Usage(
            cpu_sec=inside[2] / 1e6 if cpu is None and inside else cpu,
            memory_peak_mb=megabytes(read.get("memory_peak", "")),
            memory_mb=inside[1] / (1 << 20) if memory is None and inside else memory,
            disk_mb=(disk.f_blocks - disk.f_bfree) * disk.f_frsize / (1 << 20),
            processes=int(pids) if pids.isdigit() else (int(inside[0]) if inside else None),
            oom_kills=oom_kills(read.get("oom", "")),
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
        if "oom" not in self._files:
            return completed
        count = oom_kills(self._read("oom", None)) or 0
        if count <= self._ooms:
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
            said = b"the sandbox was ended: its processes used more memory than its limit\n"
            return Completed(128 + _SIGKILL, _stream(b""), _stream(said), 0.0, signal=_SIGKILL, oom=True)
        words = self._spawned.last_words()
        raise SandboxError(f"sandbox {self._name} ended unexpectedly ({ending.status}): {words or why}")


def _write_requests(files: Sequence[FileWrite]) -> Iterator[list[bytes]]:
    """Requests of bounded size: a large file goes in several pieces, small ones go together."""
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


def _stream(data: bytes) -> Stream:
    return Stream(head=data, total_bytes=len(data), sha256=sha256_hex(data))


class _Started:
    """A command in flight, as the protocol wants it."""

    def __init__(self, box: Box, call: CommandCall) -> None:
        self._box = box
        self._call = call

    def write(self, data: bytes) -> None:
        self._call.write(data)

    def close_stdin(self) -> None:
        self._call.close_stdin()

    def kill(self) -> None:
        self._call.kill()

    def wait(self) -> Completed:
        return self._box.settle(self._call)


class _Dead:
    """A command that could not start because the candidate had ended its own sandbox."""

    def __init__(self, completed: Completed) -> None:
        self._completed = completed

    def write(self, data: bytes) -> None:
        """Nobody reads it."""

    def close_stdin(self) -> None:
        """Nobody reads it."""

    def kill(self) -> None:
        """Nothing lives."""

    def wait(self) -> Completed:
        return self._completed
