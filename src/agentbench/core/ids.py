"""Identifiers and times in the form that records use."""

from __future__ import annotations

import os
import time
from datetime import datetime

_CROCKFORD = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"


def new_ulid() -> str:
    """Return a ULID: 48 bits of milliseconds and 80 random bits, sortable by time."""
    number = (int(time.time() * 1000) << 80) | int.from_bytes(os.urandom(10), "big")
    return "".join(_CROCKFORD[(number >> shift) & 31] for shift in range(125, -5, -5))


def now_iso() -> str:
    """Return the current time in ISO 8601 with zone and milliseconds."""
    return datetime.now().astimezone().isoformat(timespec="milliseconds")
