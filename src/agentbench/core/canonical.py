"""Canonical JSON (RFC 8785) and the digests taken over it."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from typing import TypeAlias

import rfc8785

Json: TypeAlias = "None | bool | int | float | str | Sequence[Json] | Mapping[str, Json]"


def canonical(value: Json) -> bytes:
    """The one byte string that stands for `value`, whatever its key order or formatting was."""
    return rfc8785.dumps(value)


def sha256_hex(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def digest(value: Json) -> str:
    """`sha256:…` over the canonical form."""
    return "sha256:" + sha256_hex(canonical(value))
