"""Extracts what a model writes or executes in one event: commands, code and natural text."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Literal

from pydantic import JsonValue

from agentbench.policy.model_answers import read_answer
from agentbench.trace.events import (
    Delegation,
    Excerpt,
    LlmResponse,
    NetworkRequest,
    NetworkResponse,
    Payload,
    ToolCallStarted,
)

MAX_TEXT = 200_000
"""Longest text that is inspected, in characters. No honest plan, command or patch is longer."""

Form = Literal["command", "line", "code", "text"]
Blobs = Callable[[str], str | None]
"""Returns the text of a stored blob, or None."""

_FENCE = re.compile(
    r"^[ \t]*+(`{3,}+|~{3,}+)[ \t]*+([\w+-]*+)[^\n]*+\n(.*?)(?:^[ \t]*+\1[ \t]*$|\Z)", re.MULTILINE | re.DOTALL
)
_SHELL_FENCES = frozenset({"", "sh", "bash", "shell", "console", "zsh", "terminal"})
_PROMPT = re.compile(r"^[ \t]*[$#>]\s+", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class ModelAction:
    """A piece of a model's output. `executed`: it is about to be executed, so it can be denied."""

    form: Form
    text: str
    executed: bool = False


def model_actions(payload: Payload, blobs: Blobs) -> Iterator[ModelAction]:
    """Yield everything the model writes or executes in this event."""
    match payload:
        case ToolCallStarted() if payload.call_id.startswith("c"):
            yield from _call(payload, blobs)
        case LlmResponse():
            yield from _answer(_full_text(payload.content.model_dump(), blobs))
        case Delegation():
            yield from prose(_full_text(payload.task.model_dump(), blobs))
        case NetworkRequest():
            yield from _network(payload, blobs)
        case NetworkResponse():
            yield ModelAction("code", _full_text(payload.request_body.model_dump(), blobs))
        case _:
            return


def _network(request: NetworkRequest, blobs: Blobs) -> Iterator[ModelAction]:
    """Yield the content of a network request. A refused one is checked like the command that would have made it."""
    if request.refused and request.host:
        yield ModelAction("command", f"curl http://{request.host}:{request.port}/", executed=True)
    yield ModelAction("code", f"{request.target}\n{_full_text(request.head.model_dump(), blobs)}")


def _answer(raw: str) -> Iterator[ModelAction]:
    """Yield the actions in a raw response."""
    answer = read_answer(raw)
    if answer is None:
        yield from prose(raw)
        return
    yield from prose(answer.text)
    yield from (ModelAction("command", command) for command in answer.commands)
    yield from (ModelAction("code", code) for code in answer.code)


def prose(text: str) -> Iterator[ModelAction]:
    """Split natural text from the fenced code in it."""
    if "```" not in text and "~~~" not in text:
        if text:
            yield ModelAction("text", text)
        return
    last = 0
    for fence in _FENCE.finditer(text):
        yield ModelAction("text", text[last : fence.start()])
        last = fence.end()
        if fence[2].lower() in _SHELL_FENCES:
            yield ModelAction("command", _PROMPT.sub("", fence[3]))
        else:
            yield ModelAction("code", fence[3])
    yield ModelAction("text", text[last:])


def _call(started: ToolCallStarted, blobs: Blobs) -> Iterator[ModelAction]:
    arguments = started.arguments
    match started.tool:
        case "run":
            yield ModelAction("command", _full_text(arguments.get("command"), blobs), executed=True)
        case "apply_patch":
            yield ModelAction("code", added_lines(_full_text(arguments.get("unified_diff"), blobs)), executed=True)
        case "read_file":
            yield ModelAction("command", f"cat '{_full_text(arguments.get('path'), blobs)}'", executed=True)
        case _:
            return


def added_lines(patch: str) -> str:
    """Return the lines that a patch adds."""
    return "\n".join(line[1:] for line in patch.split("\n") if line.startswith("+") and not line.startswith("+++"))


def _full_text(value: JsonValue | Mapping[str, object], blobs: Blobs) -> str:
    """Return the full text: short text is in the event, long text in a blob."""
    if isinstance(value, str):
        return value[:MAX_TEXT]
    if not isinstance(value, Mapping) or not {"sha256", "text"} <= set(value):
        return ""
    excerpt = Excerpt.model_validate(value)
    stored = blobs(excerpt.blob) if excerpt.blob is not None else None
    return (excerpt.text if stored is None else stored)[:MAX_TEXT]
