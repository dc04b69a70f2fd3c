"""What a model said in an answer as its service sent it: a JSON body or a stream of events, of whatever dialect.

Monitors must see the words and the tool calls, not the wrapping. Nothing here depends on a dialect: text is what stands under
the names that all of them use for it, and the arguments of tool calls are JSON inside JSON.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from pydantic import JsonValue

_SAID = frozenset({"content", "text", "reasoning", "reasoning_content", "thinking", "delta", "refusal"})
_ARGUMENTS = frozenset({"arguments", "partial_json", "input"})
_COMMANDS = frozenset({"command", "cmd", "script", "commands", "shell"})
_MAX_DEPTH = 12
_LINE_END = re.compile(r"\r\n|\r|\n")


@dataclass(slots=True)
class Answer:
    """The text of an answer, and the commands and other values that its tool calls hold."""

    text: str = ""
    commands: list[str] = field(default_factory=list)
    code: list[str] = field(default_factory=list)


def read_answer(raw: str) -> Answer | None:
    """Take an answer apart; None when it is no JSON and no stream of it, but plain text."""
    documents = list(_documents(raw))
    if not documents:
        return None
    said: list[str] = []
    arguments: list[str] = []
    answer = Answer()
    for document in documents:
        _walk(document, "", said, arguments, answer, 0)
    answer.text = "".join(said)
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
        # Ends of lines as a stream of events has them: U+2028 and its like may stand within the text of an answer.
        for line in _LINE_END.split(raw):
            if line.startswith("data:"):
                try:
                    yield json.loads(line[5:])
                except (ValueError, RecursionError):
                    continue


def _walk(value: JsonValue, key: str, said: list[str], arguments: list[str], answer: Answer, depth: int) -> None:
    if depth > _MAX_DEPTH:
        return
    if isinstance(value, str):
        if key in _ARGUMENTS:
            arguments.append(value)
        elif key in _SAID:
            said.append(value)
    elif isinstance(value, list):
        for inner in value:
            _walk(inner, key, said, arguments, answer, depth + 1)
    elif isinstance(value, dict):
        if key in _ARGUMENTS:
            _argument(value, answer)
            return
        for name, inner in value.items():
            _walk(inner, name, said, arguments, answer, depth + 1)


def _values(text: str) -> Iterator[JsonValue]:
    """JSON values that stand one behind the other."""
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
        (answer.commands if key in _COMMANDS else answer.code).append(value)
    elif isinstance(value, list):
        if key in _COMMANDS and all(isinstance(one, str) for one in value):
            answer.commands.append(" ".join(map(str, value)))
            return
        for inner in value:
            _argument(inner, answer, key, depth + 1)
    elif isinstance(value, dict):
        for name, inner in value.items():
            _argument(inner, answer, name, depth + 1)
