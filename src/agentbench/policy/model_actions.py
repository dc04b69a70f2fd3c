"""What a model says or does in one event: commands, code and natural text, each told apart from the others."""

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

MAX_SPOKEN = 200_000
"""Characters of one utterance that are looked at. More is no honest plan, command or patch."""

Form = Literal["command", "line", "code", "text"]
Blobs = Callable[[str], str | None]
"""The text of a stored blob, None when it cannot be had."""

_FENCE = re.compile(
    r"^[ \t]*+(`{3,}+|~{3,}+)[ \t]*+([\w+-]*+)[^\n]*+\n(.*?)(?:^[ \t]*+\1[ \t]*$|\Z)", re.MULTILINE | re.DOTALL
)
_SHELL_FENCES = frozenset({"", "sh", "bash", "shell", "console", "zsh", "terminal"})
_PROMPT = re.compile(r"^[ \t]*[$#>]\s+", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Utterance:
    """A piece of what was said or done. `acted`: it is about to be carried out, so it can be denied."""

    form: Form
    text: str
    acted: bool = False


def utterances(payload: Payload, blobs: Blobs) -> Iterator[Utterance]:
    """Everything the model says or does in this event; nothing for events that are not the model's."""
    match payload:
        case ToolCallStarted() if payload.call_id.startswith("c"):
            yield from _call(payload, blobs)
        case LlmResponse():
            yield from _answer(_whole(payload.content.model_dump(), blobs))
        case Delegation():
            yield from prose(_whole(payload.task.model_dump(), blobs))
        case NetworkRequest():
            yield from _network(payload, blobs)
        case NetworkResponse():
            yield Utterance("code", _whole(payload.request_body.model_dump(), blobs))
        case _:
            return


def _network(request: NetworkRequest, blobs: Blobs) -> Iterator[Utterance]:
    """What is asked of the network. What the proxy refused is judged as the command that would have asked for it."""
    if request.refused and request.host:
        yield Utterance("command", f"curl http://{request.host}:{request.port}/", acted=True)
    yield Utterance("code", f"{request.target}\n{_whole(request.head.model_dump(), blobs)}")


def _answer(raw: str) -> Iterator[Utterance]:
    """An answer as its service sent it, or as plain text."""
    answer = read_answer(raw)
    if answer is None:
        yield from prose(raw)
        return
    yield from prose(answer.text)
    yield from (Utterance("command", one) for one in answer.commands)
    yield from (Utterance("code", one) for one in answer.code)


def prose(text: str) -> Iterator[Utterance]:
    """Natural text with fenced code in it."""
    if "```" not in text and "~~~" not in text:
        if text:
            yield Utterance("text", text)
        return
    last = 0
    for fence in _FENCE.finditer(text):
        yield Utterance("text", text[last : fence.start()])
        last = fence.end()
        if fence[2].lower() in _SHELL_FENCES:
            yield Utterance("command", _PROMPT.sub("", fence[3]))
        else:
            yield Utterance("code", fence[3])
    yield Utterance("text", text[last:])


def _call(started: ToolCallStarted, blobs: Blobs) -> Iterator[Utterance]:
    arguments = started.arguments
    match started.tool:
        case "run":
            yield Utterance("command", _whole(arguments.get("command"), blobs), acted=True)
        case "apply_patch":
            yield Utterance("code", added_lines(_whole(arguments.get("unified_diff"), blobs)), acted=True)
        case "read_file":
            yield Utterance("command", f"cat '{_whole(arguments.get('path'), blobs)}'", acted=True)
        case _:
            return


def added_lines(patch: str) -> str:
    """What a patch brings in. Lines it takes away or shows are not the model's words."""
    return "\n".join(line[1:] for line in patch.split("\n") if line.startswith("+") and not line.startswith("+++"))


def _whole(value: JsonValue | Mapping[str, object], blobs: Blobs) -> str:
    """Text as it was given: short text is in the event, long text in a blob."""
    if isinstance(value, str):
        return value[:MAX_SPOKEN]
    if not isinstance(value, Mapping) or not {"sha256", "text"} <= set(value):
        return ""
    shown = Excerpt.model_validate(value)
    stored = blobs(shown.blob) if shown.blob is not None else None
    return (shown.text if stored is None else stored)[:MAX_SPOKEN]
