"""Server-sent events: decoded from a stream of bytes, and encoded."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from agentbench.core.dataclass import dataclass
from agentbench.models.faults import NotJson, TooLarge
from agentbench.models.json_values import JsonObject, dump, read_object

MAX_EVENT = 8 << 20
DONE = "[DONE]"
LAST_EVENTS = frozenset({"message_stop", "response.completed", "response.incomplete", "response.failed"})
"""Names of events that end a stream."""


@dataclass(frozen=True, slots=True)
class SseEvent:
    """One event. `data` is its text; `object` reads it as JSON."""

    data: str
    event: str = ""

    def encode(self) -> bytes:
        head = f"event: {self.event}\n" if self.event else ""
        body = "".join(f"data: {line}\n" for line in self.data.split("\n"))
        return f"{head}{body}\n".encode("utf-8", "backslashreplace")

    def object(self) -> JsonObject:
        """
        Raises:
            NotJson: it is not a JSON object.
        """
        try:
            return read_object(self.data)
        except ValueError as error:
            raise NotJson(f"an event of the stream is not a JSON object: {error}") from None


def event_of(value: JsonObject, name: str = "") -> SseEvent:
    return SseEvent(dump(value), name)


def read_events(chunks: Iterable[bytes], *, max_event: int = MAX_EVENT) -> Iterator[SseEvent]:
    """Yield each event when it is complete. An unfinished event at the end is dropped, as the standard says.

    Raises:
        NotJson: the stream is not UTF-8.
        TooLarge: an event is larger than `max_event`.
    """
    held = bytearray()
    for chunk in chunks:
        # The end of an event may lie across two chunks.
        start = max(len(held) - 3, 0)
        held += chunk
        while (end := _end_of_event(held, start)) is not None:
            event = _parse(bytes(held[: end[0]]))
            del held[: end[1]]
            start = 0
            if event is not None:
                yield event
        if len(held) > max_event:
            raise TooLarge(f"an event of the stream is larger than {max_event} bytes")


def _end_of_event(held: bytearray, start: int) -> tuple[int, int] | None:
    """Return where the first event ends and where the next begins."""
    best: tuple[int, int] | None = None
    for mark in (b"\n\n", b"\r\n\r\n", b"\r\r"):
        at = held.find(mark, start, best[0] + 1 if best else len(held))
        if at >= 0:
            best = (at, at + len(mark))
    return best


def _parse(block: bytes) -> SseEvent | None:
    try:
        text = block.decode()
    except UnicodeDecodeError:
        raise NotJson("the stream is not UTF-8") from None
    name, data = "", []
    for line in text.replace("\r\n", "\n").replace("\r", "\n").split("\n"):
        field, _, value = line.partition(":")
        value = value.removeprefix(" ")
        if field == "data":
            data.append(value)
        elif field == "event":
            name = value
    return SseEvent("\n".join(data), name) if data else None
