"""The Anthropic messages dialect, translated to and from chat for a service that only speaks chat."""

from __future__ import annotations

from collections.abc import Mapping

from pydantic import JsonValue

from agentbench.models.dialects import chat
from agentbench.models.dialects.chat import ChatReader, Piece
from agentbench.models.json_values import JsonObject, arr, dump, obj, read_object, string, text_of
from agentbench.models.protocol import TokenUsage
from agentbench.models.sse import SseEvent, event_of

_SAME_IN_CHAT = ("max_tokens", "temperature", "top_p", "stream")
_STOP_REASONS = {
    "stop": "end_turn",
    "length": "max_tokens",
    "tool_calls": "tool_use",
    "function_call": "tool_use",
    "content_filter": "refusal",
}


# --- requests --------------------------------------------------------------------------------------------------------


def to_chat(body: Mapping[str, JsonValue]) -> JsonObject:
    """Translate a request to chat, without what chat does not have (thinking, top_k, built-in tools)."""
    messages: list[JsonValue] = []
    instructions = text_of(body.get("system"))
    if instructions:
        messages.append({"role": "system", "content": instructions})
    for message in arr(body.get("messages")):
        messages += _messages(obj(message))
    chat_body: JsonObject = {"model": body.get("model"), "messages": messages}
    chat_body |= {name: body[name] for name in _SAME_IN_CHAT if body.get(name) is not None}
    if body.get("stop_sequences") is not None:
        chat_body["stop"] = body["stop_sequences"]
    tools = [_tool(obj(tool)) for tool in arr(body.get("tools")) if "input_schema" in obj(tool)]
    if tools:
        chat_body["tools"] = list(tools)
        chat_body |= _choice(obj(body.get("tool_choice")))
    return chat_body


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
    # In chat, tool results must directly follow the calls; other user content comes after them.
    if not parts and not calls:
        return results
    chat_message: JsonObject = {"role": role, "content": _join(parts)}
    if calls:
        chat_message["tool_calls"] = calls
    return [*results, chat_message]


def _join(parts: list[JsonValue]) -> JsonValue:
    """Return plain text if there is only text, because not every server accepts parts."""
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
    chat_choice: JsonObject = {}
    if kind == "tool":
        chat_choice["tool_choice"] = {"type": "function", "function": {"name": choice.get("name")}}
    elif kind in kinds:
        chat_choice["tool_choice"] = kinds[kind]
    if choice.get("disable_parallel_tool_use") is True:
        chat_choice["parallel_tool_calls"] = False
    return chat_choice


# --- responses -------------------------------------------------------------------------------------------------------


def usage_body(usage: TokenUsage) -> JsonObject:
    return {
        "input_tokens": max(usage.prompt - usage.cached, 0),
        "cache_creation_input_tokens": 0,
        "cache_read_input_tokens": usage.cached,
        "output_tokens": usage.completion,
    }


def from_chat(body: Mapping[str, JsonValue], model: str) -> JsonObject:
    """Translate a whole chat response."""
    reader = ChatReader()
    content: list[JsonValue] = []
    texts: dict[int, tuple[JsonObject, list[str]]] = {}
    stop, usage, has_calls = "end_turn", TokenUsage(), False
    for piece in reader.whole(body):
        match piece:
            case chat.Text() | chat.Refusal():
                content.append({"type": "text", "text": piece.text})
            case chat.CallStart():
                block: JsonObject = {"type": "tool_use", "id": piece.id, "name": piece.name, "input": {}}
                texts[piece.index] = (block, [])
                content.append(block)
                has_calls = True
            case chat.CallText():
                texts[piece.index][1].append(piece.text)
            case chat.FinishReason():
                stop = stop_reason(piece.reason, has_calls=has_calls)
            case chat.Used():
                usage = piece.usage
            case chat.Reasoning():
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


def stop_reason(reason: str, *, has_calls: bool) -> str:
    """Translate a finish reason. Some servers say `stop` despite tool calls; clients would then ignore the calls."""
    return "tool_use" if has_calls and reason == "stop" else _STOP_REASONS.get(reason, "end_turn")


def _input(text: str) -> JsonObject:
    """Parse the arguments of a call. The dialect only allows objects, so malformed text is passed on under a key."""
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
        """The open block: -1 is text, other numbers are indices of calls in the chat stream."""
        self._next = 0
        self._usage = TokenUsage()
        self._reason = "stop"
        self._has_calls = False

    def feed(self, reader: ChatReader, pieces: list[Piece]) -> list[SseEvent]:
        events = [] if self._begun else self._begin(reader)
        for piece in pieces:
            match piece:
                case chat.Text() | chat.Refusal():
                    events += self._switch(-1, {"type": "text", "text": ""})
                    events.append(self._delta({"type": "text_delta", "text": piece.text}))
                case chat.CallStart():
                    self._has_calls = True
                    events += self._switch(
                        piece.index, {"type": "tool_use", "id": piece.id, "name": piece.name, "input": {}}
                    )
                case chat.CallText():
                    events.append(self._delta({"type": "input_json_delta", "partial_json": piece.text}))
                case chat.FinishReason():
                    self._reason = piece.reason
                case chat.Used():
                    self._usage = piece.usage
                case chat.Reasoning():
                    pass
        return events

    def end(self, reader: ChatReader) -> list[SseEvent]:
        events = [] if self._begun else self._begin(reader)
        events += self._stop()
        delta: JsonObject = {"stop_reason": stop_reason(self._reason, has_calls=self._has_calls), "stop_sequence": None}
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
