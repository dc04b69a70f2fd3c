"""Strict parsing of JSON objects, and access to JSON values of unknown shape."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable
from typing import NoReturn, TypeAlias

from pydantic import JsonValue

JsonObject: TypeAlias = dict[str, JsonValue]


def read_object(text: str | bytes) -> JsonObject:
    """Parse a JSON object. NaN, infinite numbers, other types and excessive nesting are rejected.

    Raises:
        ValueError: what is wrong, and where.
    """
    try:
        value = json.loads(text, parse_constant=_refuse, parse_float=_finite)
    except RecursionError:
        raise ValueError("nested too deep") from None
    except UnicodeDecodeError:
        raise ValueError("not UTF-8") from None
    if not isinstance(value, dict):
        raise ValueError(f"expected an object, got {type(value).__name__}")  # noqa: TRY004 - as json itself raises
    return value


def _finite(digits: str) -> float:
    """Reject `1e999`: valid JSON, but not a usable number."""
    number = float(digits)
    return number if math.isfinite(number) else _refuse(digits[:40])


def _refuse(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is not valid JSON")


def obj(value: JsonValue) -> JsonObject:
    return value if isinstance(value, dict) else {}


def arr(value: JsonValue) -> list[JsonValue]:
    return value if isinstance(value, list) else []


def string(value: JsonValue) -> str:
    return value if isinstance(value, str) else ""


def count(value: JsonValue) -> int:
    """Return a token count that is never negative, fractional or absurdly large."""
    return min(max(int(value), 0), 10**12) if isinstance(value, int | float) and value == value else 0  # noqa: PLR0124 - NaN


def text_of(content: JsonValue) -> str:
    """Return the text of message content: a string, or a list of parts of which some are text."""
    if isinstance(content, str):
        return content
    texts: Iterable[str] = (string(obj(part).get("text")) for part in arr(content))
    return "\n".join(text for text in texts if text)


def dump(value: JsonValue) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
