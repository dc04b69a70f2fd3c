"""One way to make a file wrong."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Change:
    operator: str
    line: int
    """In the file as the reference leaves it."""
    what: str
    content: bytes
    """The whole file with it."""
