"""Extracts text and tool calls from a raw model response: a JSON body or an event stream, in any dialect.

Monitors must see the text and the tool calls, not the wire format. The extraction does not depend on a dialect: it collects
the keys that all of them use for text, and parses tool call arguments as JSON inside JSON.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import field

from pydantic import JsonValue

from agentbench.core.dataclass import dataclass

_TEXT_KEYS = frozenset({"content", "text", "reasoning", "reasoning_content", "thinking", "delta", "refusal"})
_ARGUMENT_KEYS = frozenset({"arguments", "partial_json", "input"})
_COMMAND_KEYS = frozenset({"command", "cmd", "script", "commands", "shell"})
_MAX_DEPTH = 12
_LINE_END = re.compile(r"\r\n|\r|\n")


@dataclass(slots=True)
class Answer:
    """The text of a response, and the commands and other string values in its tool calls."""

    text: str = ""
    commands: list[str] = field(default_factory=list)
    code: list[str] = field(default_factory=list)


def read_answer(raw: str) -> Answer | None:
    """Parse a response; None if it is plain text, neither JSON nor an event stream."""
    documents = list(_documents(raw))
    if not documents:
        return None
    texts: list[str] = []
    arguments: list[str] = []
    answer = Answer()
    for document in documents:
        _walk(document, "", texts, arguments, answer, 0)
    answer.text = "".join(texts)
    for value in _values("".join(arguments)):
        _argument(value, answer)
    return answer


def _documents(raw: str) -> Iterator[JsonValue]:
    start = raw[:200].lstrip()[:6]
    if start.startswith("{"):
        try:
            yield json.loads(raw)
        except (ValueError, RecursionError):
            return
    elif start.startswith(("data:", "event:", ":")):
        # Only the line ends of event streams: U+2028 and similar may be part of the text.
        for line in _LINE_END.split(raw):
            if line.startswith("data:"):
                try:
                    yield json.loads(line[5:])
                except (ValueError, RecursionError):
                    continue


def _walk(value: JsonValue, key: str, texts: list[str], arguments: list[str], answer: Answer, depth: int) -> None:
    if depth > _MAX_DEPTH:
        return
    if isinstance(value, str):
        if key in _ARGUMENT_KEYS:
            arguments.append(value)
        elif key in _TEXT_KEYS:
            texts.append(value)
    elif isinstance(value, list):
        for inner in value:
            _walk(inner, key, texts, arguments, answer, depth + 1)
    elif isinstance(value, dict):
        if key in _ARGUMENT_KEYS:
            _argument(value, answer)
            return
        for name, inner in value.items():
            _walk(inner, name, texts, arguments, answer, depth + 1)


def _values(text: str) -> Iterator[JsonValue]:
    """Parse concatenated JSON values."""
    decoder = json.JSONDecoder()
    at = 0
    while at < len(text):
        try:
            value, at = decoder.raw_decode(text, at)
        except (ValueError, RecursionError):
            return
        yield value
        while at < len(text) and text[at].isspace():
            at += 1


def _argument(value: JsonValue, answer: Answer, key: str = "", depth: int = 0) -> None:
    if depth > _MAX_DEPTH:
        return
    if isinstance(value, str):
        (answer.commands if key in _COMMAND_KEYS else answer.code).append(value)
    elif isinstance(value, list):
        if key in _COMMAND_KEYS and all(isinstance(item, str) for item in value):
            answer.commands.append(" ".join(map(str, value)))
            return
        for inner in value:
            _argument(inner, answer, key, depth + 1)
    elif isinstance(value, dict):
        for name, inner in value.items():
            _argument(inner, answer, name, depth + 1)
