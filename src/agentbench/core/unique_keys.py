"""Refuses duplicate keys in JSON from outside. Most readers keep the last value silently, others the first."""

from __future__ import annotations

import re
from typing import Any


class DuplicateKeyError(ValueError):
    """An object has a key twice."""

    def __init__(self, key: str) -> None:
        super().__init__(f"duplicate key '{key}'")
        self.key = key


def unique_members(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Build an object from its members; for `object_pairs_hook` of the `json` module.

    Raises:
        DuplicateKeyError: a key occurs twice.
    """
    mapping = dict(pairs)
    if len(mapping) != len(pairs):
        seen: set[str] = set()
        for key, _ in pairs:
            if key in seen:
                raise DuplicateKeyError(key)
            seen.add(key)
    return mapping


def key_lines(text: str, key: str, first: int = 1) -> list[int]:
    """Return the numbers of the lines of a JSON text that have this key. `first`: number of the text's first line."""
    matches = re.finditer(rf'"{re.escape(key)}"\s*:', text)
    return sorted({first + text.count("\n", 0, match.start()) for match in matches})
