"""Read JSON that another tool wrote: bounded in size, with the place of an error in the message."""

from __future__ import annotations

import json
import math
from datetime import UTC, datetime
from pathlib import Path

from agentbench.core.canonical import Json
from agentbench.core.errors import InputError
from agentbench.core.regular_file import open_regular

MAX_BYTES = 256 * 1024**2
"""Larger documents are refused: each is parsed as a whole."""
MAX_MARKS = 10_000_000
"""Brackets, commas and colons of a document, those in its texts included: a parsed value takes up to a hundred times its bytes."""


def read_json_file(path: Path) -> dict[str, Json]:
    """
    Raises:
        InputError: it cannot be read, is too large, or is not a JSON object.
    """
    try:
        with open_regular(path) as file:
            data = file.read(MAX_BYTES + 1)
    except OSError as error:
        raise InputError(f"cannot read {path}: {error.strerror or error}") from error
    return parse_object(data, str(path))


def parse_object(data: bytes, place: str) -> dict[str, Json]:
    """
    Raises:
        InputError: too large, or not a JSON object.
    """
    if len(data) > MAX_BYTES:
        raise InputError(f"{place} is larger than {MAX_BYTES // 1024**2} MB")
    if len(data) - len(data.translate(None, b"{[,:")) > MAX_MARKS:
        raise InputError(f"{place} has too many values")
    try:
        value = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise InputError(f"{place}: not JSON: {error}") from None
    if not isinstance(value, dict):
        raise InputError(f"{place}: expected a JSON object")
    return value


def member(value: Json, *path: str) -> Json:
    """Return a member of nested objects; None if there is none."""
    for name in path:
        value = value.get(name) if isinstance(value, dict) else None
    return value


def text(value: Json, default: str = "") -> str:
    return default if value is None else str(value)


def real(value: Json) -> float | None:
    """Return a finite number; None for anything else. True is 1."""
    if not isinstance(value, (int, float)):
        return None
    try:
        known = float(value)
    except OverflowError:
        return None
    return known if math.isfinite(known) else None


def number(value: Json) -> float:
    """Return a number from 0 on; 0 for anything else."""
    known = real(value)
    return known if known is not None and known > 0 else 0.0


def count(value: Json) -> int:
    return min(int(number(value)), 2**53 - 1)


def time_or(value: Json, default: str) -> str:
    """Return an ISO 8601 time with a zone, or the default."""
    try:
        parsed = datetime.fromisoformat(text(value))
    except ValueError:
        return default
    return (parsed if parsed.tzinfo else parsed.replace(tzinfo=UTC)).isoformat(timespec="milliseconds")
