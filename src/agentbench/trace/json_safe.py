"""Converts any value to JSON that can be logged, whatever text, number or nesting an agent produces."""

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


def to_json(value: object, redact: Redactor | None = None, names: frozenset[str] = frozenset(), depth: int = 0) -> Json:
    """Convert `value` to JSON; never fails.

    Secrets are redacted (except in keys that are in `names`), lone surrogates become escapes, integers beyond 2^53 and numbers
    that are not finite become text, bytes become base64, other objects their `str`. Values nested deeper than MAX_DEPTH are
    replaced by a note.
    """
    if isinstance(value, Mapping | list | tuple):
        if depth >= MAX_DEPTH:
            return f"[nested deeper than {MAX_DEPTH}]"
        if isinstance(value, Mapping):
            return _object(value, redact, names, depth + 1)
        return [to_json(inner, redact, names, depth + 1) for inner in value]
    return _scalar(value, redact)


def _scalar(value: object, redact: Redactor | None) -> Json:
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, int):
        return int(value) if -SAFE_INTEGER <= value <= SAFE_INTEGER else _digits(value)
    if isinstance(value, float) and math.isfinite(value):
        return float(value)
    if isinstance(value, bytes | bytearray):
        return base64.b64encode(value).decode()
    return _text(str(value), redact)


@functools.cache
def field_names(model: type[BaseModel]) -> frozenset[str]:
    """Return the field names of a model and of all models in its fields."""
    names = set(model.model_fields)
    annotations: list[object] = [info.annotation for info in model.model_fields.values()]
    while annotations:
        annotation = annotations.pop()
        annotations += get_args(annotation)
        if isinstance(annotation, type) and issubclass(annotation, BaseModel):
            names |= field_names(annotation)
    return frozenset(names)


def _object(
    value: Mapping[object, object], redact: Redactor | None, names: frozenset[str], depth: int
) -> dict[str, Json]:
    result: dict[str, Json] = {}
    for key, inner in value.items():
        name = key if isinstance(key, str) and key in names else _text(str(key), redact)
        # Different keys may become the same text; keep both.
        while name in result:
            name += "~"
        result[name] = to_json(inner, redact, names, depth)
    return result


def _text(text: str, redact: Redactor | None) -> str:
    text = valid_utf8(text)
    return redact.text(text) if redact else text


def valid_utf8(text: str) -> str:
    r"""Replace lone surrogates, which UTF-8 cannot encode, by escapes (`\udc80`)."""
    if text.isascii():
        return text
    return text.encode("utf-8", "backslashreplace").decode()


def _digits(number: int) -> str:
    try:
        return str(number)
    except ValueError:
        # Python limits the length of decimal numbers, but not of hexadecimal ones.
        return hex(number)
