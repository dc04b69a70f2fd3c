"""Writes and reads logs. Each log has one writer; lines are flushed at once and synced by `sync` and `close`."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Collection, Iterable, Iterator
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Self

from agentbench.core.canonical import CanonicalError, canonical
from agentbench.core.dataclass import dataclass
from agentbench.core.errors import InputError, RecordError
from agentbench.core.file_lock import try_lock
from agentbench.core.regular_file import open_regular
from agentbench.trace.chain import GENESIS, BadLine, Event, Line, read_line, write_line
from agentbench.trace.events import Actor, AttemptClosed, Payload
from agentbench.trace.json_safe import field_names, to_json
from agentbench.trace.originals import OriginalsWriter, of_event
from agentbench.trace.redaction import Redactor

if TYPE_CHECKING:
    from agentbench.trace.withholding import TextWithholder

Responder = Callable[[int, Payload], Iterable[tuple[Payload, Actor]]]
"""Called with every event as it is written; returns events that must directly follow it."""


class EventLog:
    """A log open for writing. `append` may be called from any thread.

    A failed write leaves the file unchanged, so that the log can be continued.
    """

    def __init__(
        self, path: Path, fd: int, redact: Redactor | None, last: Tail, originals: OriginalsWriter | None = None
    ) -> None:
        self.path = path
        self._fd = fd
        self._redact = redact
        self._originals = originals
        self._lock = threading.Lock()
        self._head, self._count, self._t, self._size = last.head, last.count, last.t, last.size
        self._broken = False
        self._kept_next = False
        self._text: TextWithholder | None = None
        self._responder: Responder | None = None
        self._listeners: list[Callable[[Payload], None]] = []

    @classmethod
    def create(
        cls, path: Path, *, redact: Redactor | None = None, originals: OriginalsWriter | None = None
    ) -> EventLog:
        """Create a log. `originals` keeps the payloads that are not written as they are.

        Raises:
            RecordError: the file exists or cannot be created.
        """
        try:
            fd = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_EXCL, 0o644)
        except OSError as error:
            raise RecordError.of("create", path, error) from error
        try:
            _lock(fd, path)
        except BaseException:
            os.close(fd)
            raise
        return cls(path, fd, redact, Tail(GENESIS, 0, 0, 0), originals)

    @classmethod
    def reopen(
        cls, path: Path, *, redact: Redactor | None = None, originals: OriginalsWriter | None = None
    ) -> tuple[EventLog, bytes]:
        """Continue a log after its last complete event.

        Returns the log and an incomplete last line, which is removed from the file.

        Raises:
            InputError: another process is writing the log.
            RecordError: the log cannot be read, or is broken before its last line.
        """
        try:
            fd = os.open(path, os.O_RDWR | os.O_APPEND)
        except OSError as error:
            raise RecordError.of("open", path, error) from error
        try:
            _lock(fd, path)
            last = tail(path)
            torn = os.pread(fd, os.fstat(fd).st_size - last.size, last.size)
            os.ftruncate(fd, last.size)
            log = cls(path, fd, redact, last, originals)
            log._kept_next = originals is not None and of_event(last.count + 1) in originals.kept()
        except OSError as error:
            os.close(fd)
            raise RecordError.of("continue", path, error) from error
        except BaseException:
            os.close(fd)
            raise
        return log, torn

    @property
    def head(self) -> str:
        """Return the hash of the last event."""
        return self._head

    @property
    def count(self) -> int:
        """Return the number of events, which is the `seq` of the last."""
        return self._count

    def append(
        self,
        payload: Payload,
        actor: Actor = "harness",
        *,
        unless: Callable[[], bool] | None = None,
        original: Payload | None = None,
    ) -> int:
        """Write one event and return its `seq`.

        `unless` is called while the log is locked. If it returns true, nothing is written and 0 is returned. `original` is
        the payload before the caller redacted it, if it did.

        Raises:
            RecordError: the event cannot be written; the log is unchanged.
        """
        encoded = self._encode(payload, original)
        with self._lock:
            if unless is not None and unless():
                return 0
            seq = self._write(encoded, payload.type, actor)
            for response, response_actor in self._responder(seq, payload) if self._responder else ():
                self._write(self._encode(response), response.type, response_actor)
            for listener in self._listeners:
                listener(payload)
            return seq

    def respond_with(self, responder: Responder) -> None:
        """Call `responder` with every later event, in log order.

        It is called while the log is locked, so it must be quick and must not write to the log. The events that it returns
        are written directly after the event.
        """
        self._responder = responder

    def listen(self, listener: Callable[[Payload], None]) -> None:
        """Call `listener` with every later event. It must be quick and must not raise or write to the log."""
        self._listeners.append(listener)

    @property
    def redact(self) -> Redactor | None:
        """Return the redactor of this log."""
        return self._redact

    def sync(self) -> None:
        """Make all events written so far survive a loss of power."""
        with self._lock:
            try:
                os.fsync(self._fd)
            except OSError as error:
                raise RecordError.of("sync", self.path, error) from error

    def close(self, record_sha256: str) -> str:
        """Write the closing event of an attempt's log, sync, close, and return the head."""
        with self._lock:
            closing = AttemptClosed(events=self._count, head=self._head, record_sha256=record_sha256)
            self._write(_Encoded(canonical(closing.model_dump(mode="json"))), closing.type, "harness")
        self.sync()
        self.release()
        return self._head

    def release(self) -> None:
        """Close the file without a closing event. Safe to call twice."""
        with self._lock:
            if self._fd >= 0:
                os.close(self._fd)
                self._fd = -1

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self.release()

    def _encode(self, payload: Payload, exact: Payload | None = None) -> _Encoded:
        """Encode a payload. Withheld text, invalid text and possible secrets take a slower path."""
        if self._originals is None:
            return _Encoded(_body(payload, self._redact))
        written = payload
        if self._originals.withhold:
            written = self._withholder().withhold(payload)
        body, original = _body(written, self._redact), _body(exact or payload, None)
        return _Encoded(body, None if original == body else original)

    def _withholder(self) -> TextWithholder:
        if self._text is None:
            from agentbench.trace.withholding import TextWithholder  # noqa: PLC0415 - few runs withhold text

            self._text = TextWithholder()
        return self._text

    def _write(self, encoded: _Encoded, event_type: str, actor: Actor) -> int:
        if self._fd < 0 or self._broken:
            msg = f"{self.path}: the log is {'unusable after a failed write' if self._broken else 'closed'}"
            raise RecordError(msg)
        # The clock may step back, but times in a log always increase.
        now = max(self._t + 1, time.time_ns() // 1000)
        seq = self._count + 1
        self._keep_original(seq, encoded)
        line, head = write_line(encoded.body, event_type=event_type, actor=actor, seq=seq, t=now, prev=self._head)
        self._write_all(line)
        self._head, self._count, self._t, self._size = head, seq, now, self._size + len(line)
        self._kept_next = False
        return seq

    def _keep_original(self, seq: int, encoded: _Encoded) -> None:
        """Keep the original of an event before it is written, so that no event is without its original.

        If the write then fails or the process dies, the next event has the same number, and replaces the original.
        """
        if self._originals is not None and (encoded.original is not None or self._kept_next):
            self._kept_next = True
            self._originals.keep(of_event(seq), encoded.body if encoded.original is None else encoded.original)

    def _write_all(self, line: bytes) -> None:
        done = 0
        try:
            # An interrupt may come between a write and the update of `_size`. That event was never reported as written,
            # so the next one replaces it.
            if os.fstat(self._fd).st_size != self._size:
                os.ftruncate(self._fd, self._size)
            while done < len(line):
                done += os.write(self._fd, line[done:] if done else line)
        except OSError as error:
            try:
                os.ftruncate(self._fd, self._size)
            except OSError:
                self._broken = True
            raise RecordError.of("write", self.path, error) from error


@dataclass(frozen=True, slots=True)
class _Encoded:
    """A payload as it is written, and as it was if that differs and is kept."""

    body: bytes
    original: bytes | None = None


def redacted_payload(payload: Payload, redact: Redactor | None) -> Payload:
    """Return a payload as a log that keeps text has it."""
    return type(payload).model_validate_json(_body(payload, redact))


def _body(payload: Payload, redact: Redactor | None) -> bytes:
    value = payload.__pydantic_serializer__.to_python(payload, mode="json")
    try:
        body = canonical(value)
    except CanonicalError:
        pass
    else:
        if redact is None or not redact.suspects(body.decode()):
            return body
    return canonical(to_json(value, redact, field_names(type(payload))))


@dataclass(frozen=True, slots=True)
class Tail:
    """The last complete event of a log, and the file size up to there."""

    head: str
    count: int
    t: int
    size: int
    line: Line | None = None

    def closing(self) -> AttemptClosed | None:
        """Return the last event if it closes an attempt's log.

        Raises:
            BadLine: its payload is not valid.
        """
        if self.line is None or self.line.type != AttemptClosed.type:
            return None
        payload = self.line.typed()
        return payload if isinstance(payload, AttemptClosed) else None


def tail(path: Path) -> Tail:
    """Find the end of a log and check its chain.

    Raises:
        RecordError: the chain is broken before the last line.
    """
    last = Tail(GENESIS, 0, 0, 0)
    with open_regular(path) as file:
        for number, raw in enumerate(file, start=1):
            if not raw.endswith(b"\n"):
                break
            try:
                line = read_line(raw[:-1])
            except BadLine as error:
                raise RecordError(f"{path}:{number}: {error}") from None
            if line.prev != last.head or line.seq != number or line.computed() != line.hash:
                raise RecordError(f"{path}:{number}: the chain is broken", remedy="run `ab verify` for details")
            last = Tail(line.hash, number, line.t, last.size + len(raw), line)
    return last


def read_events(path: Path, *, types: Collection[str] | None = None) -> Iterator[Event]:
    """Yield the events of a log; with `types`, only those (others are not parsed).

    An incomplete last line is ignored. The chain is not checked.

    Raises:
        RecordError: the file cannot be read, or a line is not an event.
    """
    try:
        with open_regular(path) as file:
            for number, raw in enumerate(file, start=1):
                if not raw.endswith(b"\n"):
                    return
                try:
                    line = read_line(raw[:-1])
                    if types is None or line.type in types:
                        yield line.event()
                except BadLine as error:
                    raise RecordError(f"{path}:{number}: {error}") from None
    except OSError as error:
        raise RecordError.of("read", path, error) from error


def _lock(fd: int, path: Path) -> None:
    if not try_lock(fd):
        raise InputError(f"{path} is being written by another process", remedy="wait until it ends, or stop it")
