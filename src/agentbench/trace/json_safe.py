"""Any value made fit for a log: whatever text, number or nesting an agent comes up with, writing it never fails."""

from __future__ import annotations

import base64
import functools
import math
from collections.abc import Mapping
from typing import get_args

from pydantic import BaseModel

from agentbench.core.canonical import SAFE_INTEGER, Json
from agentbench.trace.redaction import Redactor

MAX_DEPTH = 64


def plain(value: object, redact: Redactor | None = None, names: frozenset[str] = frozenset(), depth: int = 0) -> Json:
    """`value` as JSON that any reader takes: total, whatever comes.

    Secrets are replaced (not in keys that are `names` of a model's members), lone surrogates written as escapes, integers
    beyond 2^53 and numbers that are not finite as text, bytes as base64; what is nested deeper than MAX_DEPTH becomes a
    note, what is no JSON its `str`.
    """
    if isinstance(value, Mapping | list | tuple):
        if depth >= MAX_DEPTH:
            return f"[nested deeper than {MAX_DEPTH}]"
        if isinstance(value, Mapping):
            return _plain_object(value, redact, names, depth + 1)
        return [plain(inner, redact, names, depth + 1) for inner in value]
    return _plain_scalar(value, redact)


def _plain_scalar(value: object, redact: Redactor | None) -> Json:
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, int):
        return int(value) if -SAFE_INTEGER <= value <= SAFE_INTEGER else _digits(value)
    if isinstance(value, float) and math.isfinite(value):
        return float(value)
    if isinstance(value, bytes | bytearray):
        return base64.b64encode(value).decode()
    return _plain_text(str(value), redact)


@functools.cache
def names_of(model: type[BaseModel]) -> frozenset[str]:
    """The names of all members of a model and of the models inside it."""
    found = set(model.model_fields)
    inside: list[object] = [info.annotation for info in model.model_fields.values()]
    while inside:
        one = inside.pop()
        inside += get_args(one)
        if isinstance(one, type) and issubclass(one, BaseModel):
            found |= names_of(one)
    return frozenset(found)


def _plain_object(
    value: Mapping[object, object], redact: Redactor | None, names: frozenset[str], depth: int
) -> dict[str, Json]:
    found: dict[str, Json] = {}
    for key, inner in value.items():
        name = key if isinstance(key, str) and key in names else _plain_text(str(key), redact)
        # Two keys may become one text: both stay.
        while name in found:
            name += "~"
        found[name] = plain(inner, redact, names, depth)
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
