"""What goes into a page is bounded: long text is cut with a word about it, long lists end, deep nesting stops."""

from __future__ import annotations

from collections.abc import Mapping

from agentbench.core.canonical import Json

LONGEST_TEXT = 20_000
LONGEST_LIST = 2_000
DEEPEST = 40


def bounded(value: object, *, text: int = LONGEST_TEXT, depth: int = 0) -> Json:
    """`value` as JSON of bounded size."""
    if isinstance(value, str):
        return value if len(value) <= text else f"{value[:text]}… ({len(value) - text} more characters)"
    if depth > DEEPEST:
        return "…"
    if isinstance(value, Mapping):
        return {
            bounded_key(key): bounded(one, text=text, depth=depth + 1)
            for key, one in list(value.items())[:LONGEST_LIST]
        }
    if isinstance(value, list | tuple):
        return [bounded(one, text=text, depth=depth + 1) for one in value[:LONGEST_LIST]]
    return value if isinstance(value, int | float | bool) or value is None else str(value)


def bounded_key(key: object) -> str:
    return str(key)[:200]
