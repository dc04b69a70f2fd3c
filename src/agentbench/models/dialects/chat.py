"""The chat dialect for agents of ours: a conversation becomes a request, an answer becomes a `Reply`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pydantic import JsonValue

from agentbench.models.dialects.pieces import (
    CallStart,
    CallText,
    ChatReader,
    Finish,
    Reasoning,
    Refusal,
    Text,
    Used,
)
from agentbench.models.faults import EmptyResponse, Refused
from agentbench.models.presets import Sampling
from agentbench.models.protocol import Finish as Finished
from agentbench.models.protocol import JsonObject, Message, Reply, TokenUsage, ToolCall, ToolSpec

_FINISHES = {
    "stop": Finished.STOP,
    "tool_calls": Finished.TOOL_CALLS,
    "function_call": Finished.TOOL_CALLS,
    "length": Finished.LENGTH,
    "content_filter": Finished.FILTERED,
}


def chat_request(
    model: str,
    messages: Sequence[Message],
    tools: Sequence[ToolSpec],
    sampling: Sampling,
    max_tokens: int | None = None,
) -> JsonObject:
    """The body of a request. Parameters that are None are not in it."""
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
    }
    return body | {name: value for name, value in given.items() if value is not None}


def _message(message: Message) -> JsonObject:
    body: JsonObject = {"role": message.role, "content": message.text}
    if message.tool_calls:
        body["tool_calls"] = [
            {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": call.arguments_text}}
            for call in message.tool_calls
        ]
        # With calls and no text, some servers want null and refuse the empty string.
        body["content"] = message.text or None
    if message.tool_call_id is not None:
        body["tool_call_id"] = message.tool_call_id
    return body


def chat_reply(body: Mapping[str, JsonValue]) -> Reply:
    """
    Raises:
        Refused: the model declined.
        EmptyResponse: neither text nor calls.
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
            case Finish():
                finish = piece.reason
            case Used():
                usage = piece.usage
    made = tuple(ToolCall(start.id, start.name, "".join(parts)) for start, parts in calls.values())
    ended = _FINISHES.get(finish, Finished.OTHER)
    if not text and not made:
        if refusal or ended is Finished.FILTERED:
            raise Refused(f"the model declined to answer: {' '.join(refusal) or finish}"[:1000])
        if ended is not Finished.LENGTH:
            raise EmptyResponse("the answer holds neither text nor a tool call")
    return Reply(
        "".join(text),
        made,
        finish=ended,
        usage=usage,
        model=reader.model,
        request_id=reader.id,
        reasoning="".join(reasoning),
    )
