"""Any value made fit for a log: whatever text, number or nesting an agent comes up with, writing it never fails."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from agentbench.core.canonical import SAFE_INTEGER, Json
from agentbench.trace.redaction import Redactor

MAX_DEPTH = 64


def plain(value: Json, redact: Redactor | None, depth: int = 0) -> Json:
    """`value` with secrets replaced, lone surrogates and bytes that are no text escaped, large integers as strings.

    A number that is not finite becomes its name; what is nested deeper than MAX_DEPTH becomes a note.
    """
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, str):
        return _plain_text(value, redact)
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else str(value)
    if isinstance(value, int):
        return value if -SAFE_INTEGER <= value <= SAFE_INTEGER else _digits(value)
    return _plain_container(value, redact, depth)


def _plain_container(value: Sequence[Json] | Mapping[str, Json], redact: Redactor | None, depth: int) -> Json:
    if depth >= MAX_DEPTH:
        return f"[nested deeper than {MAX_DEPTH}]"
    if not isinstance(value, Mapping):
        return [plain(inner, redact, depth + 1) for inner in value]
    found: dict[str, Json] = {}
    for key, inner in value.items():
        name = _plain_text(str(key), redact)
        # Two keys may become one text: both stay.
        while name in found:
            name += "~"
        found[name] = plain(inner, redact, depth + 1)
    return found


def _plain_text(text: str, redact: Redactor | None) -> str:
    text = sound(text)
    return redact.text(text) if redact else text


def sound(text: str) -> str:
    r"""`text` that UTF-8 can hold: a lone surrogate is written as its escape (`\udc80`)."""
    if text.isascii():
        return text
    return text.encode("utf-8", "backslashreplace").decode()


def _digits(number: int) -> str:
    try:
        return str(number)
    except ValueError:
        # Python refuses to write thousands of digits in decimal; hexadecimal has no such limit.
        return hex(number)
