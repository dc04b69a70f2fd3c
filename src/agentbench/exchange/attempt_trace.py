"""Read one attempt as other tools describe it: messages, model requests and tool calls with their times.

The conversation with the model comes from `agent/conversation.jsonl`. An attempt without it (no model, a program whose traffic was
not observed, deleted or withheld evidence) is told by its briefing and its tool calls. Withheld text stays withheld: its
placeholder with digest and length is exported like any other text.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import field
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal

from agentbench.core.canonical import Json
from agentbench.core.dataclass import dataclass
from agentbench.core.errors import InputError, RecordError
from agentbench.core.regular_file import open_regular
from agentbench.record.attempt_folder import EVENTS
from agentbench.record.schema import AttemptRecord
from agentbench.trace.events import (
    Briefing,
    Excerpt,
    LlmRequest,
    LlmResponse,
    PatchExtracted,
    ToolCallFinished,
    ToolCallStarted,
)
from agentbench.trace.json_safe import to_json
from agentbench.trace.log import read_events

CONVERSATION = "agent/conversation.jsonl"
Role = Literal["system", "user", "assistant", "tool"]
_ROLES: tuple[Role, ...] = ("system", "user", "assistant", "tool")
_TYPES = frozenset(
    kind.type for kind in (Briefing, LlmRequest, LlmResponse, ToolCallStarted, ToolCallFinished, PatchExtracted)
)


@dataclass(frozen=True, slots=True)
class RequestedCall:
    """A tool call as a message contains it. `malformed` has the arguments if they are not a JSON object."""

    id: str
    name: str
    arguments: Mapping[str, Json]
    malformed: str | None = None


@dataclass(frozen=True, slots=True)
class TraceMessage:
    """One message. `parent` is the message that it follows; conversations branch."""

    role: Role
    text: str
    parent: int | None = None
    calls: tuple[RequestedCall, ...] = ()
    answers: str | None = None
    """The id of the call that a tool message answers."""
    response: int | None = None
    """Number of the event `llm_response` that brought the message."""


@dataclass(slots=True)
class ModelRequest:
    """One request to the model, with its response if there was one. Times are microseconds since 1970."""

    seq: int
    id: str
    provider: str
    model: str
    parameters: Mapping[str, Json]
    started_us: int
    ended_us: int
    response: LlmResponse | None = None
    response_seq: int | None = None
    reply: int | None = None
    """Index of the message that answers it, if the conversation has it."""

    @property
    def error(self) -> str:
        if self.response is None:
            return "no response"
        return "" if self.response.status == "ok" else self.response.error or self.response.status


@dataclass(slots=True)
class ToolRun:
    """One tool call as the harness executed it."""

    seq: int
    id: str
    tool: str
    arguments: Mapping[str, Json]
    started_us: int
    ended_us: int
    by_agent: bool
    """False for a call in which the harness ran the agent's program."""
    finished: ToolCallFinished | None = None

    @property
    def output(self) -> str:
        """Output of the call, as far as its event contains it."""
        if self.finished is None:
            return ""
        return "".join(filter(None, (text_of(self.finished.stdout), text_of(self.finished.stderr))))

    @property
    def error(self) -> str:
        if self.finished is None:
            return "the call did not end"
        if self.finished.ok:
            return ""
        return self.finished.error_message or self.finished.error_type or f"exit status {self.finished.exit_code}"


@dataclass(slots=True)
class AttemptTrace:
    """One attempt: its record and what happened in it."""

    record: AttemptRecord
    briefing: str = ""
    messages: list[TraceMessage] = field(default_factory=list)
    """Every message once, in the order of their first appearance."""
    requests: list[ModelRequest] = field(default_factory=list)
    tools: list[ToolRun] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    """Why something is missing."""
    has_conversation: bool = False
    patch: PatchExtracted | None = None

    @property
    def steps(self) -> list[ModelRequest | ToolRun]:
        """Requests and tool calls in the order they began."""
        steps: list[ModelRequest | ToolRun] = [*self.requests, *self.tools]
        return sorted(steps, key=lambda step: step.seq)

    def path(self, index: int | None) -> list[int]:
        """Return the messages from the first one to this one."""
        found: list[int] = []
        while index is not None:
            found.append(index)
            parent = self.messages[index].parent
            index = parent if parent is not None and parent < index else None
        return found[::-1]

    def main_path(self) -> list[int]:
        """Return the conversation that ended last. Others, of subagents or rewritten ones, are not part of it."""
        replies = [number for number, message in enumerate(self.messages) if message.response is not None]
        return self.path(replies[-1] if replies else len(self.messages) - 1 if self.messages else None)


def read_trace(folder: Path, record: AttemptRecord) -> AttemptTrace:
    """Read the evidence in the folder of an attempt. Missing files are noted.

    Raises:
        InputError: a file cannot be read.
    """
    trace = AttemptTrace(record)
    try:
        if (folder / EVENTS).exists():
            _read_events(folder / EVENTS, trace)
        else:
            trace.notes.append("the attempt has no log")
        _read_conversation(folder / CONVERSATION, trace)
    except RecordError as error:
        raise InputError(error.message, remedy="run `ab verify` for details") from error
    if not trace.has_conversation:
        if trace.requests:
            trace.notes.append("the text of the conversation is not in the evidence")
        _tell_by_calls(trace)
    _link_replies(trace)
    return trace


def text_of(excerpt: Excerpt) -> str:
    """Return the text of an output. Bytes that are not UTF-8 are replaced; withheld text is named by digest and length."""
    if not excerpt.text and excerpt.total_bytes:
        return f"[withheld: {excerpt.total_bytes} bytes, sha256:{excerpt.sha256}]"
    return excerpt.data.decode("utf-8", "replace")


def iso_time(microseconds: int) -> str:
    """Format a time as ISO 8601 in UTC."""
    return datetime.fromtimestamp(microseconds / 1e6, tz=UTC).isoformat(timespec="microseconds")


def _read_events(path: Path, trace: AttemptTrace) -> None:
    requests: dict[str, ModelRequest] = {}
    tools: dict[str, ToolRun] = {}
    for event in read_events(path, types=_TYPES):
        match event.payload:
            case Briefing(text=text):
                trace.briefing = text
            case PatchExtracted() as patch:
                trace.patch = patch
            case LlmRequest() as asked:
                request = ModelRequest(
                    event.seq, asked.request_id, asked.provider, asked.model, asked.parameters, event.t, event.t
                )
                requests[asked.request_id] = request
                trace.requests.append(request)
            case LlmResponse() as answered if answered.request_id in requests:
                request = requests[answered.request_id]
                # The content is in the conversation; of the event only the numbers are needed.
                request.response = answered.model_copy(update={"content": Excerpt()})
                request.ended_us, request.response_seq = event.t, event.seq
            case ToolCallStarted() as call:
                tool = ToolRun(
                    event.seq, call.call_id, call.tool, call.arguments, event.t, event.t, by_agent=call.by_agent
                )
                tools[call.call_id] = tool
                trace.tools.append(tool)
            case ToolCallFinished() as done if done.call_id in tools:
                tools[done.call_id].finished = done
                tools[done.call_id].ended_us = event.t
            case _:
                pass


def _read_conversation(path: Path, trace: AttemptTrace) -> None:
    for line in _lines(path):
        role = line.get("role")
        if role not in _ROLES:
            trace.notes.append(str(line.get("text", "")))
            continue
        same = line.get("same_as")
        known = trace.messages[same] if isinstance(same, int) and 0 <= same < len(trace.messages) else None
        parent = line.get("parent")
        response = line.get("response")
        trace.messages.append(
            TraceMessage(
                role=role,
                text=known.text if known else str(line.get("text", "")),
                parent=parent if isinstance(parent, int) and 0 <= parent < len(trace.messages) else None,
                calls=known.calls if known else tuple(_calls(line.get("tool_calls"))),
                answers=known.answers if known else _text(line.get("tool_call_id")),
                response=response if isinstance(response, int) else None,
            )
        )
    trace.has_conversation = bool(trace.messages)


def _lines(path: Path) -> Iterator[Mapping[str, Json]]:
    try:
        with open_regular(path) as file:
            for number, raw in enumerate(file, start=1):
                try:
                    line = json.loads(raw)
                except (ValueError, RecursionError) as error:
                    raise RecordError(f"{path}:{number}: {error}") from None
                if not isinstance(line, dict):
                    raise RecordError(f"{path}:{number}: expected an object")
                yield line
    except FileNotFoundError:
        return
    except OSError as error:
        raise RecordError.of("read", path, error) from error


def _calls(value: Json) -> Iterator[RequestedCall]:
    for call in value if isinstance(value, list) else []:
        if isinstance(call, dict):
            arguments = call.get("arguments")
            known = to_json(arguments)  # a model may write numbers that are not finite, or nest without end
            malformed = None if isinstance(arguments, dict) else str(arguments)
            known = known if isinstance(known, dict) else {}
            yield RequestedCall(str(call.get("id", "")), str(call.get("name", "")), known, malformed)


def _text(value: Json) -> str | None:
    return None if value is None else str(value)


def _tell_by_calls(trace: AttemptTrace) -> None:
    """Describe an attempt without a conversation: the briefing, then each tool call with its output."""
    trace.messages.append(TraceMessage("user", trace.briefing))
    for tool in trace.tools:
        last = len(trace.messages) - 1
        call = RequestedCall(tool.id, tool.tool, tool.arguments)
        trace.messages.append(TraceMessage("assistant", "", last, (call,)))
        text = tool.output + (f"\n{tool.error}" if tool.error and tool.output else tool.error)
        trace.messages.append(TraceMessage("tool", text, last + 1, answers=tool.id))


def _link_replies(trace: AttemptTrace) -> None:
    by_response = {
        message.response: number for number, message in enumerate(trace.messages) if message.response is not None
    }
    for request in trace.requests:
        request.reply = by_response.get(request.response_seq or 0)
