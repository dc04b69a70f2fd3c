"""Identifiers and times in the form that records use."""

from __future__ import annotations

import os
import time
from datetime import datetime

_CROCKFORD = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
ULID_LENGTH = 26


def new_ulid() -> str:
    """Return a ULID: 48 bits of milliseconds and 80 random bits, sortable by time."""
    return make_ulid(now_ms(), os.urandom(10))


def make_ulid(milliseconds: int, tail: bytes) -> str:
    """Return the ULID of a time and of 10 bytes."""
    number = (milliseconds << 80) | int.from_bytes(tail, "big")
    return "".join(_CROCKFORD[(number >> shift) & 31] for shift in range(125, -5, -5))


def split_ulid(ulid: str) -> tuple[int, bytes]:
    """Return the milliseconds and the 10 bytes of a ULID.

    Raises:
        ValueError: it is not a ULID.
    """
    number = 0
    for character in ulid:
        number = number * 32 + _CROCKFORD.index(character)
    if len(ulid) != ULID_LENGTH or number >= 1 << 128:
        raise ValueError(ulid)
    return number >> 80, (number & ((1 << 80) - 1)).to_bytes(10, "big")


def now_ms() -> int:
    """Return the current time in milliseconds since 1970."""
    return int(time.time() * 1000)


def now_iso() -> str:
    """Return the current time in ISO 8601 with zone and milliseconds."""
    return datetime.now().astimezone().isoformat(timespec="milliseconds")
