"""Redacts known secrets that are spread over several events of a recorded stream."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from agentbench.core.errors import ModelFault
from agentbench.models.sse import SseEvent, event_of, read_events
from agentbench.trace.redaction import Redactor

_Place = tuple[Any, Any]
"""A list or an object, and the index or key of a text in it."""
_MAX_DEPTH = 50


def redact_stream(content: bytes, redact: Redactor | None) -> bytes:
    """Return the events of a stream, unchanged unless a secret lies across several of them.

    In that case the first of these events holds the whole text, redacted, and the others hold none.
    """
    if redact is None:
        return content
    try:
        events = list(read_events([content]))
    except ModelFault:
        return content
    bodies = [_body(event) for event in events]
    texts: dict[tuple[object, ...], list[_Place]] = {}
    for event, body in zip(events, bodies, strict=True):
        if body is not None:
            for path, place in _texts(body, ()):
                texts.setdefault((event.event, body.get("type"), *path), []).append(place)
    changed = [_clean(places, redact) for places in texts.values()]
    if not any(changed):
        return content
    return b"".join(
        (event if body is None else event_of(body, event.event)).encode()
        for event, body in zip(events, bodies, strict=True)
    )


def _body(event: SseEvent) -> dict[str, Any] | None:
    try:
        return event.object()
    except ModelFault:
        return None


def _texts(value: Any, path: tuple[object, ...]) -> Iterator[tuple[tuple[object, ...], _Place]]:  # noqa: ANN401
    inner = value.items() if isinstance(value, dict) else enumerate(value)
    for key, item in inner:
        if isinstance(item, str):
            yield (*path, key), (value, key)
        elif isinstance(item, dict | list) and len(path) < _MAX_DEPTH:
            yield from _texts(item, (*path, key))


def _clean(places: list[_Place], redact: Redactor) -> bool:
    pieces = [_bytes(holder[key]) for holder, key in places]
    whole = b"".join(pieces)
    clean = redact.named(whole)
    if clean in (whole, b"".join(redact.named(piece) for piece in pieces)):
        return False
    for number, (holder, key) in enumerate(places):
        holder[key] = "" if number else clean.decode("utf-8", "replace")
    return True


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")
