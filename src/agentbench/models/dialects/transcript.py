"""Reads recorded requests and responses of every dialect as messages. Unreadable parts are left out, never raised."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from pydantic import JsonValue

from agentbench.core.errors import ModelFault
from agentbench.models.client.endpoint import Dialect
from agentbench.models.dialects import messages, responses
from agentbench.models.dialects.chat import CallStart, CallText, ChatReader, Refusal, Text
from agentbench.models.json_values import JsonObject, arr, obj, read_object, string, text_of
from agentbench.models.protocol import Message, Role, ToolCall
from agentbench.models.sse import DONE, SseEvent, read_events

_ROLES: Mapping[str, Role] = {
    "system": "system",
    "developer": "system",
    "assistant": "assistant",
    "tool": "tool",
    "function": "tool",
}
_IMAGE = "[image]"


def request_messages(dialect: Dialect, body: JsonObject) -> list[Message]:
    """Return the conversation that a request sends."""
    try:
        if dialect is Dialect.MESSAGES:
            body = messages.to_chat(body)
        elif dialect is Dialect.RESPONSES:
            body = responses.to_chat({**body, "previous_response_id": None, "conversation": None})
    except ModelFault:
        return []
    return [_message(obj(message)) for message in arr(body.get("messages"))]


def response_message(dialect: Dialect, raw: bytes, *, streams: bool) -> Message:
    """Return the model's message; of a stream that was cut off, the part that was received."""
    try:
        if dialect is Dialect.CHAT:
            return _chat_stream(_events(raw)) if streams else _chat(read_object(raw))
        body = _assembled(dialect, _events(raw)) if streams else read_object(raw)
    except (ValueError, ModelFault):
        return Message("assistant", "")
    if dialect is Dialect.MESSAGES:
        given: JsonObject = {"messages": [{"role": "assistant", "content": body.get("content")}]}
    else:
        given = {"input": body.get("output")}
    messages = request_messages(dialect, given)
    return Message(
        "assistant",
        "\n".join(message.text for message in messages if message.text),
        tuple(call for message in messages for call in message.tool_calls),
    )


def _message(message: JsonObject) -> Message:
    """Return a message of the chat dialect."""
    role, content = string(message.get("role")), message.get("content")
    images = sum(obj(part).get("type") == "image_url" for part in arr(content))
    text = "\n".join(filter(None, (text_of(content), string(message.get("refusal")), *[_IMAGE] * images)))
    calls = tuple(_call(obj(call)) for call in arr(message.get("tool_calls")))
    return Message(_ROLES.get(role, "user"), text, calls, string(message.get("tool_call_id")) or None)


def _call(call: JsonObject) -> ToolCall:
    function = obj(call.get("function"))
    return ToolCall(string(call.get("id")), string(function.get("name")), string(function.get("arguments")))


def _chat(body: JsonObject) -> Message:
    choices = arr(body.get("choices"))
    return _message({**obj(obj(choices[0]).get("message")), "role": "assistant"} if choices else {"role": "assistant"})


def _chat_stream(events: Iterable[SseEvent]) -> Message:
    reader = ChatReader()
    text: list[str] = []
    calls: dict[int, ToolCall] = {}
    try:
        for event in events:
            for piece in reader.chunk(_body(event)):
                if isinstance(piece, Text | Refusal):
                    text.append(piece.text)
                elif isinstance(piece, CallStart):
                    calls[piece.index] = ToolCall(piece.id, piece.name, "")
                elif isinstance(piece, CallText) and piece.index in calls:
                    call = calls[piece.index]
                    calls[piece.index] = ToolCall(call.id, call.name, call.arguments_text + piece.text)
    except ModelFault:
        pass
    return Message("assistant", "".join(text), tuple(calls.values()))


def _assembled(dialect: Dialect, events: Iterable[SseEvent]) -> JsonObject:
    """Return the body that a stream would have had as a whole."""
    blocks: dict[int, JsonObject] = {}
    items: list[JsonValue] = []
    for body in map(_body, events):
        match body.get("type"), body.get("index"):
            case "content_block_start", int(index) if dialect is Dialect.MESSAGES:
                blocks[index] = obj(body.get("content_block"))
            case "content_block_delta", int(index) if index in blocks:
                _extend(blocks[index], obj(body.get("delta")))
            case "response.output_item.done", _:
                items.append(body.get("item"))
            case _:
                pass
    for block in blocks.values():
        if "partial_json" in block:
            block["input"] = _parsed(string(block["partial_json"]))
    return {"content": list(blocks.values()), "output": items}


def _extend(block: JsonObject, delta: JsonObject) -> None:
    for name in ("text", "partial_json"):
        if name in delta:
            block[name] = string(block.get(name)) + string(delta[name])


def _parsed(text: str) -> JsonObject:
    try:
        return read_object(text or "{}")
    except ValueError:
        return {"unreadable": text}


def _events(raw: bytes) -> Iterable[SseEvent]:
    return (event for event in read_events([raw]) if event.data != DONE)


def _body(event: SseEvent) -> JsonObject:
    try:
        return read_object(event.data)
    except ValueError:
        return {}
