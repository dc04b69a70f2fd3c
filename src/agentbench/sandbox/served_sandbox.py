"""What a sandbox does through the command server in it, whichever backend started it."""

from __future__ import annotations

import contextlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence

from agentbench.core.canonical import sha256_hex
from agentbench.core.command import Command, Completed, Stream
from agentbench.core.errors import PatchInvalid
from agentbench.sandbox.command_channel import ChannelClosed, CommandCall, CommandChannel
from agentbench.sandbox.memory_limit import MemoryGauge
from agentbench.sandbox.protocol import RunningCommand
from agentbench.sandbox.server.capture import pack
from agentbench.tree.entry import FileWrite

_SIGKILL = 9
_WRITE_BYTES = 256 * 1024


class ServedSandbox(ABC):
    """The part of `protocol.Sandbox` that is a conversation. A backend adds what only it can see of a sandbox."""

    def __init__(self, channel: CommandChannel, gauge: MemoryGauge | None = None) -> None:
        """`gauge`: what its programs hold, where the host can see that."""
        self._channel = channel
        self._gauge = gauge
        self._closed = False

    @property
    def closed(self) -> bool:
        return self._closed

    def enforce_memory_limit(self) -> None:
        """End the largest program of a sandbox whose programs are over the limit; its command's result says so."""
        if self._closed or self._gauge is None or not self._channel.busy or not self._gauge.over():
            return
        with contextlib.suppress(ChannelClosed):
            # One that cannot be told now is looked at again with the next round; the others are not kept waiting.
            self._channel.nudge([b"relieve", b"0"])

    @abstractmethod
    def _add_oom_status(self, completed: Completed) -> Completed:
        """Add what only the host can see: whether the kernel killed for memory meanwhile."""

    @abstractmethod
    def _on_channel_closed(self, why: str) -> Completed:
        """The channel ended. By the candidate's doing: a result that says so. Otherwise ours.

        Raises:
            SandboxError: nothing shows that the candidate did it.
        """

    def run(self, command: Command) -> Completed:
        try:
            return self._add_oom_status(self._channel.start(command, open_stdin=False).wait())
        except ChannelClosed as error:
            return self._on_channel_closed(str(error))

    def start(
        self,
        command: Command,
        *,
        on_stdout: Callable[[bytes], None] | None = None,
        on_stderr: Callable[[bytes], None] | None = None,
    ) -> RunningCommand:
        try:
            call = self._channel.start(command, open_stdin=True, on_stdout=on_stdout, on_stderr=on_stderr)
        except ChannelClosed as error:
            return _Dead(self._on_channel_closed(str(error)))
        return _Started(self, call)

    def settle(self, call: CommandCall) -> Completed:
        try:
            return self._add_oom_status(call.wait())
        except ChannelClosed as error:
            return self._on_channel_closed(str(error))

    def write_files(self, files: Sequence[FileWrite]) -> None:
        try:
            answer = self._channel.ask_in_parts(b"write", _write_requests(files), timeout_sec=300)
        except ChannelClosed as error:
            # Their doing or ours: raises when it is ours.
            why = self._on_channel_closed(str(error)).stderr.kept.decode("utf-8", "replace").strip()
            raise PatchInvalid(f"files cannot be written: {why}") from error
        if answer[0] != b"ok":
            raise PatchInvalid(answer[1].decode("utf-8", "replace") if len(answer) > 1 else "refused")

    def kill_processes(self) -> int:
        try:
            return int(self._channel.ask(b"killall")[0])
        except (ChannelClosed, ValueError, IndexError) as error:
            self._on_channel_closed(str(error))
            return 0


def oom_result() -> Completed:
    """The result of a command whose whole sandbox was ended by the kernel, for memory."""
    return killed_result("its processes used more memory than its limit", oom=True)


def killed_result(why: str, *, oom: bool = False) -> Completed:
    """The result of a command whose whole sandbox was ended by what ran in it."""
    said = f"the sandbox was ended: {why}\n".encode()
    return Completed(128 + _SIGKILL, _stream(b""), _stream(said), 0.0, signal=_SIGKILL, oom=oom)


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

    def __init__(self, box: ServedSandbox, call: CommandCall) -> None:
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
