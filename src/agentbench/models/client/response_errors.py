"""Maps unsuccessful responses of a service to faults. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping

from pydantic import JsonValue

from agentbench.core.text import printable
from agentbench.models import faults
from agentbench.models.client.endpoint import Dialect
from agentbench.models.json_values import read_object

MAX_TEXT = 600
ANSWERED = "the service answered"
"""Start of the message of a fault with a status. A replay reads the status from recorded messages, so never change it."""
_OVERFLOW = re.compile(
    r"context_length_exceeded|maximum context length|context (?:window|size|length)|prompt is too long|too many tokens"
    r"|exceeds the (?:available )?context|input is too long|string_above_max_length",
    re.IGNORECASE,
)
_NEVER_FITS = re.compile(r"request too large|tokens must be reduced", re.IGNORECASE)
"""Of a request with more tokens than the account may send in a minute. It is refused as often as it is sent."""


def fault_of(status: int, body: bytes, retry_after: float | None = None) -> faults.ServiceFault:
    """Return the fault for an HTTP status other than 200."""
    text = _error_text(body)
    message = f"{ANSWERED} {status}" + (f": {text}" if text else "")
    if status in {401, 402, 403}:
        remedy = "check the API key, its permissions and its credit"
        return faults.Unauthorised(message, status=status, remedy=remedy)
    never_fits = status == 413 or (status == 429 and _NEVER_FITS.search(text))
    if never_fits or (status in {400, 422} and _OVERFLOW.search(text)):
        return faults.ContextOverflow(message, status=status)
    for kind, holds in (
        (faults.RateLimited, status == 429),
        (faults.TimedOut, status in {408, 504}),
        (faults.ServerError, status >= 500 or status == 409),
    ):
        if holds:
            return kind(message, status=status, retry_after=retry_after)
    return faults.Rejected(message if status >= 400 else f"{message}: redirects are not followed", status=status)


def check_body(dialect: Dialect, body: Mapping[str, JsonValue]) -> None:
    """Check a response with status 200.

    Raises:
        ServiceFault: it holds an error, or no content.
    """
    error = body.get("error")
    if error:
        code = error.get("code") if isinstance(error, dict) else None
        status = code if isinstance(code, int) and 400 <= code < 600 else 502
        raise fault_of(status, str(error.get("message") if isinstance(error, dict) else error).encode())
    field = {Dialect.CHAT: "choices", Dialect.RESPONSES: "output", Dialect.MESSAGES: "content"}[dialect]
    content = body.get(field)
    # Only chat must have content; in the other dialects a turn may end with none.
    if not isinstance(content, list) or (dialect is Dialect.CHAT and not content):
        raise faults.EmptyResponse(f"the response has no {field}")


def _error_text(body: bytes) -> str:
    """Return the human-readable text of an error, whatever its form."""
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
    return printable(text if len(text) <= MAX_TEXT else text[:MAX_TEXT] + " …")
