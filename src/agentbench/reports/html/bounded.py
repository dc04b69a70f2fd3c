"""Bound the size of data on a page: long text, long lists and deep nesting are truncated."""

from __future__ import annotations

import json
from collections.abc import Mapping

from agentbench.core.canonical import Json


class ByteBudget:
    """Bytes left for one part of a page."""

    def __init__(self, size: int) -> None:
        self.left = size

    def fits(self, value: object) -> bool:
        """Charge `value` to the budget and report whether it still fits."""
        self.left -= len(json.dumps(value, separators=(",", ":")))
        return self.left >= 0


MAX_TEXT = 20_000
MAX_ITEMS = 2_000
MAX_KEY = 200
MAX_DEPTH = 40


def bounded(value: object, *, text: int = MAX_TEXT, depth: int = 0) -> Json:
    """Return `value` as JSON of bounded size."""
    kind = type(value)
    if kind is str:
        return cut(str(value), text)
    if value is None or kind is bool or kind is int or kind is float:
        return value  # type: ignore[return-value]  # checked above
    if depth > MAX_DEPTH:
        return "…"
    if isinstance(value, Mapping):
        items = list(value.items())[:MAX_ITEMS]
        return {str(key)[:MAX_KEY]: bounded(item, text=text, depth=depth + 1) for key, item in items}
    if isinstance(value, list | tuple):
        return [bounded(item, text=text, depth=depth + 1) for item in value[:MAX_ITEMS]]
    return cut(str(value), text)


def bounded_members(value: Mapping[str, object], *, text: int, items: int) -> dict[str, Json]:
    """Bound an object whose lists may have at most `items` elements."""
    shortened = {key: member[:items] if isinstance(member, list) else member for key, member in value.items()}
    return {key: bounded(member, text=text, depth=1) for key, member in shortened.items()}


def cut(value: str, max_length: int) -> str:
    omitted = len(value) - max_length
    return value if omitted <= 0 else f"{value[:max_length]}… ({omitted} more characters)"
