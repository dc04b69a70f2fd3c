"""The host's end of a sandbox's command channel.

One reader thread per sandbox reads frames from the socket and passes each to the call it answers. Data from inside a
sandbox is untrusted: sizes are checked before anything is allocated, and a frame that does not parse ends the channel,
never the harness.
"""

from __future__ import annotations

import contextlib
import itertools
import socket
import struct
import threading
from collections.abc import Callable, Iterable, Sequence

from agentbench.core.command import MIB, Command, Completed, ProcessCounts, Stream
from agentbench.core.errors import SandboxError
from agentbench.sandbox.observation import ObservedPrograms
from agentbench.sandbox.protocol import ProcessObserver
from agentbench.sandbox.server.capture import pack, unpack

_STDIN_WINDOW = 1 * MIB
"""Bytes of stdin that may be sent to a command before it has read them."""
_STDIN_CHUNK = 64 * 1024
_MIN_FRAME_LIMIT = 8 * MIB
_SEND_TIMEOUT_SEC = 60
_ANSWER_MARGIN_SEC = 30.0
"""Added to a command's timeout, which the command server enforces."""
_OVERDUE_SEC = 10.0
"""Allowed after every deadline: if the machine stood still, the deadline passes before the answer can be read."""
_DONE_FIELDS = 19
_MAX_TIMEOUT_SEC = 1e9

Callback = Callable[[bytes], None]


class ChannelClosed(Exception):
    """The command server exited or sent invalid data. The sandbox decides whether the candidate caused that."""


class _Call:
    """A request that gets exactly one answer."""

    def __init__(self) -> None:
        self.done = threading.Event()
        self.answer: list[bytes] | None = None

    def wait_answer(self, timeout_sec: float, channel: CommandChannel) -> list[bytes]:
        """
        Raises:
            ChannelClosed: no answer came, or the answer will never come.
        """
        if not self.done.wait(timeout_sec) and not self.done.wait(_OVERDUE_SEC):
            raise ChannelClosed("the command server did not answer in time")
        if self.answer is None:
            raise ChannelClosed(channel.why)
        return self.answer

    def on_output(self, tag: bytes, data: bytes) -> None:
        """Ignored: only commands have output."""

    def on_ack(self, count: int) -> None:
        """Ignored: only commands have stdin."""

    def on_programs(self, entries: list[bytes]) -> None:
        """Ignored: only commands start programs."""

    def settle(self, answer: list[bytes] | None) -> None:
        self.answer = answer
        self.done.set()


class CommandCall(_Call):
    """A command that was started and may still run."""

    def __init__(
        self,
        channel: CommandChannel,
        name: bytes,
        command: Command,
        callbacks: tuple[Callback | None, ...],
        observe: ProcessObserver | None,
    ) -> None:
        super().__init__()
        self._channel = channel
        self._name = name
        self._callbacks = dict(zip((b"1", b"2"), callbacks, strict=True))
        self._programs = ObservedPrograms(observe) if observe is not None else None
        self._timeout_sec = min(command.timeout_sec + _ANSWER_MARGIN_SEC, threading.TIMEOUT_MAX)
        self._window = threading.Condition()
        self._unread = 0
        self._callback_error: Exception | None = None

    def on_output(self, tag: bytes, data: bytes) -> None:
        callback = self._callbacks.get(tag)
        if callback is None or self._callback_error is not None:
            return
        try:
            callback(data)
        except Exception as error:  # noqa: BLE001 - the reader serves other calls too; `wait` raises it
            self._callback_error = error

    def on_programs(self, entries: list[bytes]) -> None:
        if self._programs is not None:
            self._programs.receive(entries)

    @property
    def programs_until_now(self) -> ProcessCounts | None:
        """Return how many programs were seen of a command that got no answer. One stands for the last ones, which may be lost."""
        if self._programs is None:
            return None
        lost = 0 if self._programs.dropped else 1
        return ProcessCounts(self._programs.started + lost, self._programs.dropped + lost, 0)

    def on_ack(self, count: int) -> None:
        with self._window:
            self._unread -= count
            self._window.notify_all()

    def settle(self, answer: list[bytes] | None) -> None:
        super().settle(answer)
        with self._window:
            self._window.notify_all()

    def write(self, data: bytes) -> None:
        """Write to stdin. Blocks while the command does not read; drops data after its end."""
        for start in range(0, len(data), _STDIN_CHUNK):
            chunk = data[start : start + _STDIN_CHUNK]
            with self._window:
                self._window.wait_for(lambda: self._unread < _STDIN_WINDOW or self.done.is_set(), self._timeout_sec)
                self._unread += len(chunk)
            if self.done.is_set():
                return
            with contextlib.suppress(ChannelClosed):
                self._channel.send([b"stdin", self._name, chunk])

    def close_stdin(self) -> None:
        with contextlib.suppress(ChannelClosed):
            self._channel.send([b"eof", self._name])

    def kill(self) -> None:
        with contextlib.suppress(ChannelClosed):
            self._channel.send([b"kill", self._name])

    def wait(self) -> Completed:
        """
        Raises:
            ChannelClosed: the answer will never come.
        """
        answer = self.wait_answer(self._timeout_sec, self._channel)
        error = self._callback_error or (self._programs.error if self._programs is not None else None)
        if error is not None:
            raise error
        try:
            return _completed(answer, self._programs.dropped if self._programs is not None else 0)
        except (ValueError, IndexError) as invalid:
            raise ChannelClosed(f"the command server sent an invalid answer: {invalid}") from invalid


class CommandChannel:
    def __init__(self, sock: socket.socket, name: str) -> None:
        self._sock = sock
        # A stopped server must not block a sender forever. Reading has no timeout.
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, struct.pack("ll", _SEND_TIMEOUT_SEC, 0))
        self._sending = threading.Lock()
        self._calls: dict[bytes, _Call] = {}
        self._names = itertools.count(1)
        self._state = threading.Lock()
        self._frame_limit = _MIN_FRAME_LIMIT
        self._ready = threading.Event()
        self._observation_problem = ""
        self.why = ""
        """Why the channel ended; empty while it is open."""
        self._reader = threading.Thread(target=self._read, name=f"channel-{name}", daemon=True)
        self._reader.start()

    @property
    def busy(self) -> bool:
        """Whether a request is unanswered, which usually means that a command runs."""
        return bool(self._calls)

    def wait_ready(self, timeout_sec: float) -> bool:
        return self._ready.wait(timeout_sec) and not self.why

    def observation_problem(self, timeout_sec: float) -> str:
        """Return why the server cannot observe programs, or nothing if it can."""
        return self._observation_problem if self.wait_ready(timeout_sec) else "the command server did not start"

    def start(
        self,
        command: Command,
        *,
        open_stdin: bool,
        on_stdout: Callback | None = None,
        on_stderr: Callback | None = None,
        observe: ProcessObserver | None = None,
    ) -> CommandCall:
        """
        `observe`: only for a server that can observe programs.

        Raises:
            ChannelClosed: the command server has exited.
        """
        name = b"%d" % next(self._names)
        call = CommandCall(self, name, command, (on_stdout, on_stderr), observe)
        self._expect(name, call, 2 * command.keep_bytes + command.side_bytes + MIB)
        first, rest = command.stdin[:_STDIN_CHUNK], command.stdin[_STDIN_CHUNK:]
        argv = command.argv or ("/bin/sh", "-c", command.line or "")
        live = on_stdout is not None or on_stderr is not None
        request = [
            b"exec",
            name,
            b"%d" % int(min(command.timeout_sec, _MAX_TIMEOUT_SEC) * 1e6),
            b"%d" % command.keep_bytes,
            b"%d" % command.side_bytes if command.side_channel else b"",
            (command.cwd or "").encode("utf-8", "surrogateescape"),
            pack([item.encode("utf-8", "surrogateescape") for item in argv]),
            pack([f"{key}={value}".encode("utf-8", "surrogateescape") for key, value in command.env.items()]),
            b"open" if open_stdin or rest else b"none",
            first,
            b"1" if live else b"0",
            b"1" if observe is not None else b"0",
        ]
        call.on_ack(-len(first))
        self.send(request)
        if rest:
            call.write(rest)
            if not open_stdin:
                call.close_stdin()
        return call

    def ask(self, verb: bytes, fields: Sequence[bytes] = (), *, timeout_sec: float = 60.0) -> list[bytes]:
        """Send one request and return the fields of its answer.

        Raises:
            ChannelClosed: no answer came.
        """
        return self.ask_in_parts(verb, [fields], timeout_sec=timeout_sec)

    def ask_in_parts(self, verb: bytes, parts: Iterable[Sequence[bytes]], *, timeout_sec: float) -> list[bytes]:
        """Send a request that is too large for one frame, and return the fields of its one answer.

        Raises:
            ChannelClosed: no answer came.
        """
        name = b"%d" % next(self._names)
        call = _Call()
        self._expect(name, call, MIB)
        for fields in parts:
            self.send([verb, name, *fields])
        return call.wait_answer(timeout_sec, self)

    def send(self, fields: list[bytes]) -> None:
        try:
            with self._sending:
                self._sock.sendall(_frame(fields))
        except OSError as error:
            raise ChannelClosed(self.why or f"write failed: {error.strerror}") from error

    def try_send(self, fields: list[bytes]) -> bool:
        """Send a small request if that does not block, and return whether it was sent.

        The memory monitor serves many sandboxes and must not wait for one that does not read.

        Raises:
            ChannelClosed: the command server has exited.
        """
        frame = _frame(fields)
        if not self._sending.acquire(blocking=False):
            return False
        try:
            sent = self._sock.send(frame, socket.MSG_DONTWAIT)
            # Half a frame would break the channel. A frame this small is normally sent whole or not at all.
            self._sock.sendall(frame[sent:])
        except BlockingIOError:
            return False
        except OSError as error:
            raise ChannelClosed(self.why or f"write failed: {error.strerror}") from error
        finally:
            self._sending.release()
        return True

    def close(self) -> None:
        with contextlib.suppress(OSError):
            self._sock.shutdown(socket.SHUT_RDWR)
        if threading.current_thread() is not self._reader:
            self._reader.join(timeout=5)
        self._sock.close()

    def _expect(self, name: bytes, call: _Call, answer_bytes: int) -> None:
        with self._state:
            if self.why:
                raise ChannelClosed(self.why)
            self._frame_limit = max(self._frame_limit, answer_bytes)
            self._calls[name] = call

    def _read(self) -> None:
        why = "the command server closed the connection"
        try:
            while body := self._read_frame():
                self._dispatch(unpack(body))
        except (OSError, ValueError, IndexError, SandboxError) as error:
            why = str(error)
        with self._state:
            self.why = why
            calls, self._calls = self._calls, {}
        self._ready.set()
        for call in calls.values():
            call.settle(None)

    def _read_frame(self) -> bytes:
        size = int.from_bytes(self._exactly(4), "big")
        if size > self._frame_limit:
            raise ValueError(f"the command server sent a frame of {size} bytes, limit {self._frame_limit}")
        return self._exactly(size) if size else b""

    def _exactly(self, count: int) -> bytes:
        """Read `count` bytes. Return nothing at the end of the stream."""
        parts = []
        missing = count
        while missing and (data := self._sock.recv(missing, socket.MSG_WAITALL)):
            parts.append(data)
            missing -= len(data)
        return b"" if missing else b"".join(parts)

    def _dispatch(self, fields: list[bytes]) -> None:
        verb = fields[0]
        if verb == b"ready":
            self._observation_problem = fields[2].decode("utf-8", "replace")
            self._ready.set()
            return
        with self._state:
            call = self._calls.get(fields[1])
            if call is not None and verb not in {b"out", b"ack", b"seen"}:
                del self._calls[fields[1]]
        if call is None:
            return
        if verb == b"out":
            call.on_output(fields[2], fields[3])
        elif verb == b"ack":
            call.on_ack(int(fields[2]))
        elif verb == b"seen":
            call.on_programs(fields[2:])
        else:
            call.settle(fields[2:])


def _frame(fields: list[bytes]) -> bytes:
    body = pack(fields)
    return len(body).to_bytes(4, "big") + body


def _completed(fields: list[bytes], dropped_here: int) -> Completed:
    if len(fields) != _DONE_FIELDS - 2:
        raise ValueError(f"{len(fields)} fields, expected {_DONE_FIELDS - 2}")
    code, died, killed, took_us, ooms, timed_out, side_truncated = fields[:7]
    return Completed(
        exit_code=int(code) if code else None,
        signal=int(died) if died else None,
        killed=int(killed),
        duration_sec=int(took_us) / 1e6,
        oom=int(ooms) > 0,
        timed_out=timed_out == b"1",
        side_truncated=side_truncated == b"1",
        stdout=_stream(fields[7:11]),
        stderr=_stream(fields[11:15]),
        side=fields[15],
        processes=_process_counts(fields[16], dropped_here),
    )


def _process_counts(field: bytes, dropped_here: int) -> ProcessCounts | None:
    if not field:
        return None
    started, dropped, refused = map(int, field.split())
    return ProcessCounts(started, dropped + dropped_here, refused)


def _stream(fields: list[bytes]) -> Stream:
    total, sha256, head, tail = fields
    return Stream(head=head, tail=tail, total_bytes=int(total), sha256=sha256.decode("ascii"))
