"""Compares two requests without their volatile parts. Pure.

Everything that may differ between two runs of the same agent is listed here; a replayed request must equal the recorded one in
all the rest. Seed and sampling are settings of the run, not choices of the agent: a replay need not repeat them.
"""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Mapping
from functools import reduce

from pydantic import JsonValue

from agentbench.models.json_values import JsonObject

PATTERNS: Mapping[str, re.Pattern[str]] = {
    "time": re.compile(r"\b\d{4}-\d\d-\d\d[T ]\d\d:\d\d(?::\d\d(?:[.,]\d+)?)?(?:Z| ?[+-]\d\d:?\d\d)?"),
    "date": re.compile(
        r"\b(?:\d{4}-\d\d-\d\d|\d{1,2}/\d{1,2}/\d{4}|(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun)\w*,? \w{3} +\d+[\d: A-Z]*\d{4})\b"
    ),
    "duration": re.compile(r"\b\d+(?:\.\d+)? ?(?:ms|us|µs|ns|s|sec|secs|seconds?|minutes?)\b|\(\d+:\d\d:\d\d\)"),
    "temporary": re.compile(r"/(?:tmp|var/tmp|dev/shm)/[\w.+-]+"),
    "address": re.compile(r"\b0x[0-9a-fA-F]{6,}\b"),
    "uuid": re.compile(r"\b[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}\b"),
    "ulid": re.compile(r"\b[0-7][0-9A-HJKMNP-TV-Z]{25}\b"),
    "call": re.compile(r"\b(?:call|toolu|chatcmpl|msg|resp|fc|req)_[A-Za-z0-9_-]{6,}\b"),
    "port": re.compile(r"\b(?:127\.0\.0\.1|localhost):\d{2,5}\b"),
    "pid": re.compile(r"\bpid[ =:]+\d+", re.IGNORECASE),
}
"""Text that is replaced by `<name>` everywhere in a request."""

KEYS = frozenset(
    {"model", "metadata", "user", "prompt_cache_key", "safety_identifier", "cache_control", "client_metadata"}
)
"""Keys that are ignored at every level: the client's identity, and caching."""

SETTINGS = frozenset({"seed", "temperature", "top_p", "max_tokens"})
"""Keys of a request that are ignored at its top level: how the run configured the model."""

MAX_DIFF_LINES = 80
MAX_LINE = 300


def normalised(value: JsonValue) -> JsonValue:
    """Return a request without its volatile parts."""
    if isinstance(value, dict):
        return {key: normalised(inner) for key, inner in value.items() if key not in KEYS}
    if isinstance(value, list):
        return [normalised(inner) for inner in value]
    if isinstance(value, str):
        return reduce(lambda text, item: item[1].sub(f"<{item[0]}>", text), PATTERNS.items(), value)
    return value


def request_diff(recorded: JsonObject, actual: JsonObject) -> str:
    """Return a bounded unified diff of two requests without their volatile parts. Empty if they are equal."""
    try:
        before, after = (_lines(normalised(_without_settings(request))) for request in (recorded, actual))
    except RecursionError:
        # Too deeply nested to normalise: compare as text.
        before, after = ([json.dumps(request, sort_keys=True)] for request in (recorded, actual))
    if before == after:
        return ""
    lines = list(difflib.unified_diff(before, after, "recorded", "actual", lineterm="", n=2))
    shown = [line if len(line) <= MAX_LINE else line[:MAX_LINE] + " …" for line in lines[:MAX_DIFF_LINES]]
    if len(lines) > MAX_DIFF_LINES:
        shown.append(f"… {len(lines) - MAX_DIFF_LINES} more lines")
    return "\n".join(shown)


def _without_settings(request: JsonObject) -> JsonObject:
    return {key: value for key, value in request.items() if key not in SETTINGS}


def _lines(value: JsonValue) -> list[str]:
    return json.dumps(_split_lines(value), indent=1, sort_keys=True, ensure_ascii=False).split("\n")


def _split_lines(value: JsonValue) -> JsonValue:
    """Replace text by the list of its lines, because a diff of one very long line shows nothing."""
    if isinstance(value, dict):
        return {key: _split_lines(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [_split_lines(inner) for inner in value]
    if isinstance(value, str) and "\n" in value:
        return list(value.split("\n"))
    return value
