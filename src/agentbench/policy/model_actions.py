"""Extracts what a model writes or executes in one event: commands, code and natural text."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Iterator, Mapping

from pydantic import JsonValue

from agentbench.core.dataclass import dataclass
from agentbench.policy.model_answers import read_answer
from agentbench.policy.monitor_rules import Form
from agentbench.policy.shell import shell_line
from agentbench.trace.events import (
    Delegation,
    Excerpt,
    LlmResponse,
    NetworkRequest,
    NetworkResponse,
    Payload,
    ProcessStarted,
    ToolCallFinished,
    ToolCallStarted,
)

MAX_TEXT = 200_000
"""Longest text that is inspected, in characters. No honest plan, command or patch is longer."""

Blobs = Callable[[str], str | None]
"""Returns the text of a stored blob, or None."""

_FENCE = re.compile(
    r"^[ \t]*+(`{3,}+|~{3,}+)[ \t]*+([\w+-]*+)[^\n]*+\n(.*?)(?:^[ \t]*+\1[ \t]*$|\Z)", re.MULTILINE | re.DOTALL
)
_SHELL_FENCES = frozenset({"", "sh", "bash", "shell", "console", "zsh", "terminal"})
_PROMPT = re.compile(r"^[ \t]*[$#>]\s+", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class ModelAction:
    """A piece of a model's output. `executed`: it is about to be executed, or (a process) was just started."""

    form: Form
    text: str
    executed: bool = False
    one_program: bool = False
    """The command is one program with its arguments, not a shell line that can contain several."""


def model_actions(payload: Payload, blobs: Blobs) -> Iterator[ModelAction]:
    """Yield everything the model writes or executes in this event."""
    match payload:
        case ToolCallStarted() if payload.by_agent:
            yield from _call(payload, blobs)
        case ProcessStarted():
            yield process_command(payload)
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


def process_command(process: ProcessStarted) -> ModelAction:
    """Return the command that a process runs: the line of `sh -c LINE`, else the program with its arguments.

    The program's name is its file name, because a caller chooses `argv[0]` freely. Only busybox depends on it.
    """
    name = process.program.rsplit("/", 1)[-1]
    first = process.argv[0].rsplit("/", 1)[-1].lstrip("-") if process.argv else ""
    words = (first if first and name in {"", "busybox"} else name, *process.argv[1:])
    line = shell_line(words)
    if line is not None:
        return ModelAction("command", line, executed=True)
    return ModelAction("command", shlex.join(words), executed=True, one_program=True)


def program_output(finished: ToolCallFinished, blobs: Blobs) -> Iterator[ModelAction]:
    """Yield the kept output of a program that acts as the agent: the beginning and the end of each stream."""
    for stream in (finished.stdout, finished.stderr):
        text = _stored(stream, blobs)
        if len(text) > MAX_TEXT:
            text = f"{text[: MAX_TEXT // 2]}\n{text[-MAX_TEXT // 2 :]}"
        if text:
            yield ModelAction("text", text)


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
        case "request_stage":
            yield from prose(_full_text(arguments.get("reason"), blobs))
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
    return _stored(Excerpt.model_validate(value), blobs)[:MAX_TEXT]


def _stored(excerpt: Excerpt, blobs: Blobs) -> str:
    stored = blobs(excerpt.blob) if excerpt.blob is not None else None
    return excerpt.text if stored is None else stored
