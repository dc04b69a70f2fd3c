"""The chat dialect: requests and replies for our own agents, and a reader that breaks a response into pieces.

A response becomes the same pieces whether it came whole or as a stream, so each writer of another dialect exists once.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeAlias

from pydantic import JsonValue

from agentbench.core.dataclass import dataclass
from agentbench.models.faults import BadResponse, EmptyResponse, Refused
from agentbench.models.json_values import JsonObject, arr, count, dump, obj, string, text_of
from agentbench.models.presets import Sampling
from agentbench.models.protocol import Finish, Message, Reply, TokenUsage, ToolCall, ToolSpec

_FINISHES = {
    "stop": Finish.STOP,
    "tool_calls": Finish.TOOL_CALLS,
    "function_call": Finish.TOOL_CALLS,
    "length": Finish.LENGTH,
    "content_filter": Finish.FILTERED,
}


@dataclass(frozen=True, slots=True)
class Text:
    text: str


@dataclass(frozen=True, slots=True)
class Refusal:
    text: str


@dataclass(frozen=True, slots=True)
class Reasoning:
    text: str


@dataclass(frozen=True, slots=True)
class CallStart:
    """A tool call begins. `index` distinguishes the calls of one response."""

    index: int
    id: str
    name: str


@dataclass(frozen=True, slots=True)
class CallText:
    """More of a call's arguments."""

    index: int
    text: str


@dataclass(frozen=True, slots=True)
class FinishReason:
    reason: str


@dataclass(frozen=True, slots=True)
class Used:
    usage: TokenUsage


Piece: TypeAlias = "Text | Refusal | Reasoning | CallStart | CallText | FinishReason | Used"


class ChatReader:
    """Reads the chunks of a stream, or one whole response. Only the first choice counts; requests never ask for more."""

    def __init__(self) -> None:
        self.model = ""
        self.id = ""
        self._seen: dict[int, bool] = {}

    def whole(self, body: Mapping[str, JsonValue]) -> list[Piece]:
        self._names(body)
        choice = _first(body.get("choices"))
        message = obj(choice.get("message"))
        pieces = self._content(message)
        for position, call in enumerate(arr(message.get("tool_calls"))):
            pieces += self._call({**obj(call), "index": position})
        pieces.append(FinishReason(string(choice.get("finish_reason")) or "stop"))
        return [*pieces, *_used(body)]

    def chunk(self, body: Mapping[str, JsonValue]) -> list[Piece]:
        self._names(body)
        choice = _first(body.get("choices"))
        delta = obj(choice.get("delta"))
        pieces = self._content(delta)
        for call in arr(delta.get("tool_calls")):
            pieces += self._call(obj(call))
        reason = string(choice.get("finish_reason"))
        if reason:
            pieces.append(FinishReason(reason))
        return [*pieces, *_used(body)]

    def _names(self, body: Mapping[str, JsonValue]) -> None:
        self.model = self.model or string(body.get("model"))
        self.id = self.id or string(body.get("id"))

    def _content(self, message: Mapping[str, JsonValue]) -> list[Piece]:
        reasoning = string(message.get("reasoning_content")) or string(message.get("reasoning"))
        content, refusal = text_of(message.get("content")), string(message.get("refusal"))
        pieces: list[Piece] = [Reasoning(reasoning)] if reasoning else []
        if content:
            pieces.append(Text(content))
        if refusal:
            pieces.append(Refusal(refusal))
        return pieces

    def _call(self, call: Mapping[str, JsonValue]) -> list[Piece]:
        function = obj(call.get("function"))
        number = call.get("index")
        # Some servers omit the index and send each call whole.
        index = number if isinstance(number, int) and not isinstance(number, bool) else len(self._seen)
        pieces: list[Piece] = []
        if index not in self._seen:
            self._seen[index] = True
            pieces.append(CallStart(index, string(call.get("id")) or f"call_{index}", string(function.get("name"))))
        elif index != next(reversed(self._seen)):
            # No dialect can reopen a closed call, and mixing two calls would run something the model did not ask for.
            raise BadResponse("the stream continues a tool call after another has begun")
        arguments = function.get("arguments")
        if isinstance(arguments, dict):
            pieces.append(CallText(index, dump(arguments)))
        elif isinstance(arguments, str) and arguments:
            pieces.append(CallText(index, arguments))
        return pieces


def _used(body: Mapping[str, JsonValue]) -> list[Piece]:
    usage = chat_usage(body)
    return [Used(usage)] if usage else []


def chat_usage(body: Mapping[str, JsonValue]) -> TokenUsage | None:
    """Return the token usage that a chat body states."""
    usage = body.get("usage")
    if not isinstance(usage, dict):
        return None
    details = obj(usage.get("prompt_tokens_details"))
    return TokenUsage(
        count(usage.get("prompt_tokens")), count(usage.get("completion_tokens")), count(details.get("cached_tokens"))
    )


def _first(choices: JsonValue) -> JsonObject:
    return obj(choices[0]) if isinstance(choices, list) and choices else {}


def chat_request(
    model: str,
    messages: Sequence[Message],
    tools: Sequence[ToolSpec],
    sampling: Sampling,
    *,
    max_tokens: int | None = None,
    seed: int | None = None,
) -> JsonObject:
    """Build the body of a request, without parameters that are None."""
    body: JsonObject = {"model": model, "messages": [_message(message) for message in messages]}
    if tools:
        body["tools"] = [
            {
                "type": "function",
                "function": {"name": tool.name, "description": tool.description, "parameters": dict(tool.parameters)},
            }
            for tool in tools
        ]
    given: Mapping[str, JsonValue] = {
        "temperature": sampling.temperature,
        "top_p": sampling.top_p,
        "max_tokens": max_tokens if max_tokens is not None else sampling.max_tokens,
        "seed": seed,
    }
    return body | {name: value for name, value in given.items() if value is not None}


def _message(message: Message) -> JsonObject:
    body: JsonObject = {"role": message.role, "content": message.text}
    if message.tool_calls:
        body["tool_calls"] = [
            {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": call.arguments_text}}
            for call in message.tool_calls
        ]
        # Next to calls, some servers accept null but not an empty string.
        body["content"] = message.text or None
    if message.tool_call_id is not None:
        body["tool_call_id"] = message.tool_call_id
    return body


def chat_reply(body: Mapping[str, JsonValue]) -> Reply:
    """
    Raises:
        Refused: the model declined to answer.
        EmptyResponse: the reply has neither text nor tool calls.
    """
    reader = ChatReader()
    text: list[str] = []
    reasoning: list[str] = []
    refusal: list[str] = []
    calls: dict[int, tuple[CallStart, list[str]]] = {}
    finish, usage = "stop", TokenUsage(estimated=True)
    for piece in reader.whole(body):
        match piece:
            case Text():
                text.append(piece.text)
            case Reasoning():
                reasoning.append(piece.text)
            case Refusal():
                refusal.append(piece.text)
            case CallStart():
                calls[piece.index] = (piece, [])
            case CallText():
                calls[piece.index][1].append(piece.text)
            case FinishReason():
                finish = piece.reason
            case Used():
                usage = piece.usage
    tool_calls = tuple(ToolCall(start.id, start.name, "".join(parts)) for start, parts in calls.values())
    finished = _FINISHES.get(finish, Finish.OTHER)
    if not text and not tool_calls:
        if refusal or finished is Finish.FILTERED:
            raise Refused(f"the model declined to answer: {' '.join(refusal) or finish}"[:1000])
        if finished is not Finish.LENGTH:
            raise EmptyResponse("the reply has neither text nor a tool call")
    return Reply(
        "".join(text),
        tool_calls,
        finish=finished,
        usage=usage,
        model=reader.model,
        request_id=reader.id,
        reasoning="".join(reasoning),
    )
