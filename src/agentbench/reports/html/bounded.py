"""What goes into a page is bounded: long text is cut with a word about it, long lists end, deep nesting stops."""

from __future__ import annotations

import json
from collections.abc import Mapping

from agentbench.core.canonical import Json


class Room:
    """Bytes that are left for something on a page. What does not fit is left out, and what follows it too."""

    def __init__(self, size: int) -> None:
        self.left = size

    def takes(self, value: object) -> bool:
        """Whether `value` still fits, as the page would hold it."""
        self.left -= len(json.dumps(value, separators=(",", ":")))
        return self.left >= 0


LONGEST_TEXT = 20_000
LONGEST_LIST = 2_000
LONGEST_KEY = 200
DEEPEST = 40


def bounded(value: object, *, text: int = LONGEST_TEXT, depth: int = 0) -> Json:
    """`value` as JSON of bounded size."""
    kind = type(value)
    if kind is str:
        return cut(str(value), text)
    if value is None or kind is bool or kind is int or kind is float:
        return value  # type: ignore[return-value]  # the types just asked for
    if depth > DEEPEST:
        return "…"
    if isinstance(value, Mapping):
        items = list(value.items())[:LONGEST_LIST]
        return {str(key)[:LONGEST_KEY]: bounded(one, text=text, depth=depth + 1) for key, one in items}
    if isinstance(value, list | tuple):
        return [bounded(one, text=text, depth=depth + 1) for one in value[:LONGEST_LIST]]
    return cut(str(value), text)


def bounded_members(value: Mapping[str, object], *, text: int, items: int) -> dict[str, Json]:
    """An object whose own lists hold at most `items`."""
    cut_short = {key: one[:items] if isinstance(one, list) else one for key, one in value.items()}
    return {key: bounded(one, text=text, depth=1) for key, one in cut_short.items()}


def cut(value: str, longest: int) -> str:
    return value if len(value) <= longest else f"{value[:longest]}… ({len(value) - longest} more characters)"
