"""Anthropic's messages dialect, for a service that speaks the chat dialect."""

from __future__ import annotations

from collections.abc import Mapping

from pydantic import JsonValue

from agentbench.models.dialects.pieces import (
    CallStart,
    CallText,
    ChatReader,
    Finish,
    Piece,
    Reasoning,
    Refusal,
    Text,
    Used,
    arr,
    dump,
    obj,
    string,
    text_of,
)
from agentbench.models.lenient_parsing import read_object
from agentbench.models.protocol import JsonObject, TokenUsage
from agentbench.models.sse import SseEvent, event_of

_STOP_REASONS = {
    "stop": "end_turn",
    "length": "max_tokens",
    "tool_calls": "tool_use",
    "function_call": "tool_use",
    "content_filter": "refusal",
}


# --- request ---------------------------------------------------------------------------------------------------------


def to_chat(body: Mapping[str, JsonValue]) -> JsonObject:
    """A messages request as a chat request. What chat has no word for (thinking, top_k, the service's own tools) is left out."""
    messages: list[JsonValue] = []
    instructions = text_of(body.get("system"))
    if instructions:
        messages.append({"role": "system", "content": instructions})
    for message in arr(body.get("messages")):
        messages += _messages(obj(message))
    chat: JsonObject = {"model": body.get("model"), "messages": messages}
    for name, chat_name in (
        ("max_tokens", "max_tokens"),
        ("temperature", "temperature"),
        ("top_p", "top_p"),
        ("stop_sequences", "stop"),
        ("stream", "stream"),
    ):
        if body.get(name) is not None:
            chat[chat_name] = body[name]
    tools = [_tool(obj(tool)) for tool in arr(body.get("tools")) if "input_schema" in obj(tool)]
    if tools:
        chat["tools"] = list(tools)
        chat |= _choice(obj(body.get("tool_choice")))
    return chat


def _messages(message: Mapping[str, JsonValue]) -> list[JsonValue]:
    role, content = string(message.get("role")), message.get("content")
    if isinstance(content, str):
        return [{"role": role, "content": content}]
    results: list[JsonValue] = []
    parts: list[JsonValue] = []
    calls: list[JsonValue] = []
    for block in map(obj, arr(content)):
        kind = block.get("type")
        if kind == "text":
            parts.append({"type": "text", "text": string(block.get("text"))})
        elif kind == "image":
            parts.append({"type": "image_url", "image_url": {"url": _image(obj(block.get("source")))}})
        elif kind == "tool_use":
            function: JsonObject = {"name": block.get("name"), "arguments": dump(obj(block.get("input")))}
            calls.append({"id": block.get("id"), "type": "function", "function": function})
        elif kind == "tool_result":
            text = text_of(block.get("content"))
            if block.get("is_error") is True:
                text = f"[error] {text}"
            results.append({"role": "tool", "tool_call_id": block.get("tool_use_id"), "content": text})
    # Answers to calls must follow the calls at once; what else the user says comes after them.
    if not parts and not calls:
        return results
    said: JsonObject = {"role": role, "content": _joined(parts)}
    if calls:
        said["tool_calls"] = calls
    return [*results, said]


def _joined(parts: list[JsonValue]) -> JsonValue:
    """Plain text where it is only text: not every server takes parts."""
    if not parts:
        return None
    if all(obj(part).get("type") == "text" for part in parts):
        return "\n".join(string(obj(part).get("text")) for part in parts)
    return parts


def _image(source: Mapping[str, JsonValue]) -> str:
    if source.get("type") == "url":
        return string(source.get("url"))
    return f"data:{string(source.get('media_type')) or 'image/png'};base64,{string(source.get('data'))}"


def _tool(tool: Mapping[str, JsonValue]) -> JsonObject:
    return {
        "type": "function",
        "function": {
            "name": tool.get("name"),
            "description": string(tool.get("description")),
            "parameters": tool.get("input_schema"),
        },
    }


def _choice(choice: Mapping[str, JsonValue]) -> JsonObject:
    kinds: dict[str, JsonValue] = {"auto": "auto", "any": "required", "none": "none"}
    kind = string(choice.get("type"))
    found: JsonObject = {}
    if kind == "tool":
        found["tool_choice"] = {"type": "function", "function": {"name": choice.get("name")}}
    elif kind in kinds:
        found["tool_choice"] = kinds[kind]
    if choice.get("disable_parallel_tool_use") is True:
        found["parallel_tool_calls"] = False
    return found


# --- answer ----------------------------------------------------------------------------------------------------------


def usage_body(usage: TokenUsage) -> JsonObject:
    return {
        "input_tokens": max(usage.prompt - usage.cached, 0),
        "cache_creation_input_tokens": 0,
        "cache_read_input_tokens": usage.cached,
        "output_tokens": usage.completion,
    }


def from_chat(body: Mapping[str, JsonValue], model: str) -> JsonObject:
    """A chat answer as a messages answer."""
    reader = ChatReader()
    content: list[JsonValue] = []
    texts: dict[int, tuple[JsonObject, list[str]]] = {}
    stop, usage, made = "end_turn", TokenUsage(), False
    for piece in reader.whole(body):
        match piece:
            case Text() | Refusal():
                content.append({"type": "text", "text": piece.text})
            case CallStart():
                block: JsonObject = {"type": "tool_use", "id": piece.id, "name": piece.name, "input": {}}
                texts[piece.index] = (block, [])
                content.append(block)
                made = True
            case CallText():
                texts[piece.index][1].append(piece.text)
            case Finish():
                stop = stop_reason(piece.reason, made=made)
            case Used():
                usage = piece.usage
            case Reasoning():
                pass  # a thinking block must be signed by the service that wrote it
    for block, parts in texts.values():
        block["input"] = _input("".join(parts))
    return {
        "id": message_id(reader.id),
        "type": "message",
        "role": "assistant",
        "model": reader.model or model,
        "content": content,
        "stop_reason": stop,
        "stop_sequence": None,
        "usage": usage_body(usage),
    }


def message_id(chat_id: str) -> str:
    return f"msg_{chat_id or 'none'}"


def stop_reason(reason: str, *, made: bool) -> str:
    """`made`: there are tool calls. Some servers say `stop` all the same, and clients would not look for them."""
    return "tool_use" if made and reason == "stop" else _STOP_REASONS.get(reason, "end_turn")


def _input(text: str) -> JsonObject:
    """Arguments of a call. The dialect has no place for text that is no object: it is handed on under a name of its own."""
    try:
        return read_object(text or "{}")
    except ValueError:
        return {"malformed_arguments": text}


class MessagesWriter:
    """Writes the events of a messages stream from the pieces of a chat stream."""

    def __init__(self, model: str) -> None:
        self._model = model
        self._begun = False
        self._open: int | None = None
        """Which block is open: -1 is text, others are calls by their index in the chat stream."""
        self._next = 0
        self._usage = TokenUsage()
        self._reason = "stop"
        self._made = False

    def feed(self, reader: ChatReader, pieces: list[Piece]) -> list[SseEvent]:
        events = [] if self._begun else self._begin(reader)
        for piece in pieces:
            match piece:
                case Text() | Refusal():
                    events += self._switch(-1, {"type": "text", "text": ""})
                    events.append(self._delta({"type": "text_delta", "text": piece.text}))
                case CallStart():
                    self._made = True
                    events += self._switch(
                        piece.index, {"type": "tool_use", "id": piece.id, "name": piece.name, "input": {}}
                    )
                case CallText():
                    events.append(self._delta({"type": "input_json_delta", "partial_json": piece.text}))
                case Finish():
                    self._reason = piece.reason
                case Used():
                    self._usage = piece.usage
                case Reasoning():
                    pass
        return events

    def end(self, reader: ChatReader) -> list[SseEvent]:
        events = [] if self._begun else self._begin(reader)
        events += self._stop()
        delta: JsonObject = {"stop_reason": stop_reason(self._reason, made=self._made), "stop_sequence": None}
        last: JsonObject = {"type": "message_delta", "delta": delta, "usage": usage_body(self._usage)}
        return [*events, event_of(last, "message_delta"), event_of({"type": "message_stop"}, "message_stop")]

    def _begin(self, reader: ChatReader) -> list[SseEvent]:
        self._begun = True
        message: JsonObject = {
            "id": message_id(reader.id),
            "type": "message",
            "role": "assistant",
            "model": reader.model or self._model,
            "content": [],
            "stop_reason": None,
            "stop_sequence": None,
            "usage": usage_body(TokenUsage()),
        }
        return [event_of({"type": "message_start", "message": message}, "message_start")]

    def _switch(self, block: int, start: JsonObject) -> list[SseEvent]:
        if self._open == block:
            return []
        events = self._stop()
        self._open = block
        value: JsonObject = {"type": "content_block_start", "index": self._next, "content_block": start}
        return [*events, event_of(value, "content_block_start")]

    def _delta(self, delta: JsonObject) -> SseEvent:
        value: JsonObject = {"type": "content_block_delta", "index": self._next, "delta": delta}
        return event_of(value, "content_block_delta")

    def _stop(self) -> list[SseEvent]:
        if self._open is None:
            return []
        self._open = None
        event = event_of({"type": "content_block_stop", "index": self._next}, "content_block_stop")
        self._next += 1
        return [event]
