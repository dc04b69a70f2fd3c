"""What an answer of a service means when it is not a good one: pure."""

from __future__ import annotations

import re
from collections.abc import Mapping

from pydantic import JsonValue

from agentbench.core.text import printable
from agentbench.models.client.endpoint import Dialect
from agentbench.models.faults import (
    ContextOverflow,
    EmptyResponse,
    RateLimited,
    Rejected,
    ServerError,
    ServiceFault,
    TimedOut,
    Unauthorised,
)
from agentbench.models.json_values import read_object

MAX_WORDS = 600
ANSWERED = "the service answered"
"""How a fault with a status begins: a replay reads the status back from it."""
_OVERFLOW = re.compile(
    r"context_length_exceeded|maximum context length|context (?:window|size|length)|prompt is too long|too many tokens"
    r"|exceeds the (?:available )?context|input is too long|string_above_max_length",
    re.IGNORECASE,
)


def fault_of(status: int, body: bytes, retry_after: float | None = None) -> ServiceFault:
    """The fault that an HTTP status other than 200 stands for."""
    words = _words(body)
    said = f"{ANSWERED} {status}" + (f": {words}" if words else "")
    if status in {401, 403}:
        return Unauthorised(said, status=status, remedy="check the key and what it may use")
    if status == 413 or (status in {400, 422} and _OVERFLOW.search(words)):
        return ContextOverflow(said, status=status)
    for kind, holds in (
        (RateLimited, status == 429),
        (TimedOut, status in {408, 504}),
        (ServerError, status >= 500 or status == 409),
    ):
        if holds:
            return kind(said, status=status, retry_after=retry_after)
    return Rejected(said if status >= 400 else f"{said}: redirections are not followed", status=status)


def check_body(dialect: Dialect, body: Mapping[str, JsonValue]) -> None:
    """An answer with 200 that is none: an error in its place, or nothing in it.

    Raises:
        ServiceFault.
    """
    error = body.get("error")
    if error:
        code = error.get("code") if isinstance(error, dict) else None
        status = code if isinstance(code, int) and 400 <= code < 600 else 502
        raise fault_of(status, str(error.get("message") if isinstance(error, dict) else error).encode())
    field = {Dialect.CHAT: "choices", Dialect.RESPONSES: "output", Dialect.MESSAGES: "content"}[dialect]
    held = body.get(field)
    # Only the chat dialect must have something in it: the others may end a turn with nothing to say.
    if not isinstance(held, list) or (dialect is Dialect.CHAT and not held):
        msg = f"the answer has no {field}"
        raise EmptyResponse(msg)


def _words(body: bytes) -> str:
    """What an error says for people, whatever its shape."""
    try:
        value = read_object(body)
    except ValueError:
        return _short(body.decode("utf-8", "replace"))
    error = value.get("error", value)
    if isinstance(error, dict):
        parts = [error.get(name) for name in ("message", "code", "type")]
        return _short(" / ".join(str(part) for part in parts if part))
    return _short(str(error))


def _short(text: str) -> str:
    text = " ".join(text.split())
    return printable(text if len(text) <= MAX_WORDS else text[:MAX_WORDS] + " …")
