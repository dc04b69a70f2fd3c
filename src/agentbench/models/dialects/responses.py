"""The OpenAI responses dialect, translated to and from chat for a service that only speaks chat."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import field
from typing import Literal

from pydantic import JsonValue

from agentbench.core.dataclass import dataclass
from agentbench.models.dialects import chat
from agentbench.models.dialects.chat import ChatReader, Piece
from agentbench.models.faults import Rejected
from agentbench.models.json_values import JsonObject, arr, dump, obj, read_object, string, text_of
from agentbench.models.protocol import TokenUsage
from agentbench.models.sse import SseEvent, event_of

_SAME_IN_CHAT = ("temperature", "top_p", "stream", "parallel_tool_calls")


def to_chat(body: Mapping[str, JsonValue]) -> JsonObject:
    """Translate a request to chat, without built-in tools and reasoning items.

    Raises:
        Rejected: the request continues a response that only its service has stored.
    """
    if body.get("previous_response_id") or body.get("conversation"):
        raise Rejected("previous_response_id and conversation are not supported: send the whole input", status=400)
    messages: list[JsonObject] = []
    instructions = string(body.get("instructions"))
    if instructions:
        messages.append({"role": "system", "content": instructions})
    given = body.get("input")
    if isinstance(given, str):
        messages.append({"role": "user", "content": given})
    for item in arr(given):
        _add(messages, obj(item))
    chat_body: JsonObject = {"model": body.get("model"), "messages": list(messages)}
    chat_body |= {name: body[name] for name in _SAME_IN_CHAT if body.get(name) is not None}
    if body.get("max_output_tokens") is not None:
        chat_body["max_tokens"] = body["max_output_tokens"]
    tools = [chat_tool for tool in arr(body.get("tools")) if (chat_tool := _tool(obj(tool)))]
    if tools:
        chat_body["tools"] = list(tools)
        chat_body |= _choice(body.get("tool_choice"))
    else:
        chat_body.pop("parallel_tool_calls", None)
    return chat_body | _format(obj(obj(body.get("text")).get("format")))


def custom_tools(body: Mapping[str, JsonValue]) -> frozenset[str]:
    """Return the names of tools that take free text instead of JSON."""
    return frozenset(
        string(obj(tool).get("name")) for tool in arr(body.get("tools")) if obj(tool).get("type") == "custom"
    )


def _add(messages: list[JsonObject], item: JsonObject) -> None:
    kind = string(item.get("type")) or "message"
    if kind == "message":
        role = string(item.get("role"))
        role = "system" if role == "developer" else role
        messages.append({"role": role, "content": _content(item.get("content"))})
    elif kind in {"function_call", "custom_tool_call"}:
        text = string(item.get("arguments"))
        if kind == "custom_tool_call":
            text = dump({"input": string(item.get("input"))})
        function: JsonObject = {"name": item.get("name"), "arguments": text}
        call: JsonObject = {"id": item.get("call_id"), "type": "function", "function": function}
        # Calls of one turn are separate items here, and one message in chat.
        if messages and messages[-1]["role"] == "assistant":
            messages[-1]["tool_calls"] = [*arr(messages[-1].get("tool_calls")), call]
        else:
            messages.append({"role": "assistant", "content": None, "tool_calls": [call]})
    elif kind in {"function_call_output", "custom_tool_call_output"}:
        output = item.get("output")
        text = output if isinstance(output, str) else text_of(output)
        messages.append({"role": "tool", "tool_call_id": item.get("call_id"), "content": text})


def _content(content: JsonValue) -> JsonValue:
    parts: list[JsonValue] = []
    for part in map(obj, arr(content)):
        if part.get("type") == "input_image":
            parts.append({"type": "image_url", "image_url": {"url": string(part.get("image_url"))}})
        elif isinstance(part.get("text"), str):
            parts.append({"type": "text", "text": part["text"]})
    if any(obj(part).get("type") == "image_url" for part in parts):
        return parts
    return content if isinstance(content, str) else text_of(parts)


def _tool(tool: Mapping[str, JsonValue]) -> JsonObject | None:
    if tool.get("type") == "function":
        function: JsonObject = {
            "name": tool.get("name"),
            "description": string(tool.get("description")),
            "parameters": tool.get("parameters") or {"type": "object", "properties": {}},
        }
    elif tool.get("type") == "custom":
        free: JsonObject = {"type": "object", "properties": {"input": {"type": "string"}}, "required": ["input"]}
        function = {"name": tool.get("name"), "description": string(tool.get("description")), "parameters": free}
    else:
        return None
    return {"type": "function", "function": function}


def _choice(choice: JsonValue) -> JsonObject:
    if isinstance(choice, str):
        return {"tool_choice": choice}
    if obj(choice).get("type") in {"function", "custom"}:
        return {"tool_choice": {"type": "function", "function": {"name": obj(choice).get("name")}}}
    return {}


def _format(wanted: Mapping[str, JsonValue]) -> JsonObject:
    kind = wanted.get("type")
    if kind == "json_object":
        return {"response_format": {"type": "json_object"}}
    if kind == "json_schema":
        schema: JsonObject = {name: wanted[name] for name in ("name", "schema", "strict") if name in wanted}
        return {"response_format": {"type": "json_schema", "json_schema": schema}}
    return {}


# --- responses -------------------------------------------------------------------------------------------------------

Kind = Literal["message", "function_call", "custom_tool_call"]


@dataclass(slots=True)
class _Item:
    """One output item while it is written."""

    kind: Kind
    id: str
    call_id: str = ""
    name: str = ""
    parts: list[str] = field(default_factory=list)

    @property
    def text(self) -> str:
        return "".join(self.parts)

    def body(self, status: str) -> JsonObject:
        if self.kind == "message":
            content: list[JsonValue] = [_part(self.text)] if status != "in_progress" else []
            return {"type": "message", "id": self.id, "status": status, "role": "assistant", "content": content}
        call: JsonObject = {"type": self.kind, "id": self.id, "call_id": self.call_id, "name": self.name}
        if self.kind == "custom_tool_call":
            return call | {"input": _free_text(self.text), "status": status}
        return call | {"arguments": self.text, "status": status}


def from_chat(body: Mapping[str, JsonValue], request: Mapping[str, JsonValue], custom: frozenset[str]) -> JsonObject:
    """Translate a whole chat response."""
    writer, reader = ResponsesWriter(request, custom), ChatReader()
    writer.feed(reader, reader.whole(body))
    last = writer.end(reader)[-1].object()
    return obj(last["response"])


class ResponsesWriter:
    """Writes the events of a responses stream from the pieces of a chat stream."""

    def __init__(self, request: Mapping[str, JsonValue], custom: frozenset[str]) -> None:
        self._request = request
        self._custom = custom
        self._created = int(time.time())
        self._number = 0
        self._begun = False
        self._items: list[_Item] = []
        self._calls: dict[int, int] = {}
        self._open: int | None = None
        self._usage = TokenUsage()
        self._reason = "stop"

    def feed(self, reader: ChatReader, pieces: list[Piece]) -> list[SseEvent]:
        events = self._begin(reader)
        for piece in pieces:
            match piece:
                case chat.Text() | chat.Refusal():
                    if self._open is None or self._items[self._open].kind != "message":
                        events += self._switch(_Item("message", f"msg_{reader.id}_{len(self._items)}"))
                    events += self._more(piece.text)
                case chat.CallStart():
                    kind: Kind = "custom_tool_call" if piece.name in self._custom else "function_call"
                    item = _Item(kind, f"fc_{reader.id}_{len(self._items)}", piece.id, piece.name)
                    self._calls[piece.index] = len(self._items)
                    events += self._switch(item)
                case chat.CallText():
                    self._open = self._calls[piece.index]
                    events += self._more(piece.text)
                case chat.FinishReason():
                    self._reason = piece.reason
                case chat.Used():
                    self._usage = piece.usage
                case chat.Reasoning():
                    pass  # only the service that wrote a reasoning item can continue it
        return events

    def end(self, reader: ChatReader) -> list[SseEvent]:
        events = self._begin(reader)
        events += self._close()
        cut = self._reason == "length"
        kind = "response.incomplete" if cut else "response.completed"
        return [*events, self._event(kind, {"response": self._body(reader, "incomplete" if cut else "completed")})]

    def _begin(self, reader: ChatReader) -> list[SseEvent]:
        if self._begun:
            return []
        self._begun = True
        return [
            self._event(kind, {"response": self._body(reader, "in_progress")})
            for kind in ("response.created", "response.in_progress")
        ]

    def _body(self, reader: ChatReader, status: str) -> JsonObject:
        done = status != "in_progress"
        request = self._request
        usage: JsonObject = {
            "input_tokens": self._usage.prompt,
            "input_tokens_details": {"cached_tokens": self._usage.cached},
            "output_tokens": self._usage.completion,
            "output_tokens_details": {"reasoning_tokens": 0},
            "total_tokens": self._usage.total,
        }
        return {
            "id": f"resp_{reader.id or 'none'}",
            "object": "response",
            "created_at": self._created,
            "status": status,
            "model": reader.model or string(request.get("model")),
            "output": [item.body("completed") for item in self._items] if done else [],
            "usage": usage if done else None,
            "error": None,
            "incomplete_details": {"reason": "max_output_tokens"} if status == "incomplete" else None,
            "instructions": request.get("instructions"),
            "metadata": request.get("metadata") or {},
            "parallel_tool_calls": request.get("parallel_tool_calls") is not False,
            "temperature": request.get("temperature"),
            "top_p": request.get("top_p"),
            "tool_choice": request.get("tool_choice") or "auto",
            "tools": request.get("tools") or [],
            "store": False,
        }

    def _switch(self, item: _Item) -> list[SseEvent]:
        events = self._close()
        self._open = len(self._items)
        self._items.append(item)
        events.append(
            self._event("response.output_item.added", {"output_index": self._open, "item": item.body("in_progress")})
        )
        if item.kind == "message":
            events.append(self._event("response.content_part.added", self._place(item) | {"part": _part("")}))
        return events

    def _more(self, text: str) -> list[SseEvent]:
        item = self._items[self._open or 0]
        item.parts.append(text)
        if item.kind == "message":
            return [self._event("response.output_text.delta", self._place(item) | {"delta": text, "logprobs": []})]
        if item.kind == "custom_tool_call":
            return []  # the text is wrapped in JSON, so it is sent when complete
        return [self._event("response.function_call_arguments.delta", self._place(item) | {"delta": text})]

    def _close(self) -> list[SseEvent]:
        if self._open is None:
            return []
        item, index = self._items[self._open], self._open
        place = self._place(item)
        body = item.body("completed")
        events = []
        if item.kind == "message":
            done = place | {"text": item.text, "logprobs": []}
            events.append(self._event("response.output_text.done", done))
            events.append(self._event("response.content_part.done", place | {"part": _part(item.text)}))
        elif item.kind == "custom_tool_call":
            text = body["input"]
            events.append(self._event("response.custom_tool_call_input.delta", place | {"delta": text}))
            events.append(self._event("response.custom_tool_call_input.done", place | {"input": text}))
        else:
            done = place | {"arguments": item.text, "name": item.name}
            events.append(self._event("response.function_call_arguments.done", done))
        events.append(self._event("response.output_item.done", {"output_index": index, "item": body}))
        self._open = None
        return events

    def _place(self, item: _Item) -> JsonObject:
        place: JsonObject = {"item_id": item.id, "output_index": self._open}
        return place | {"content_index": 0} if item.kind == "message" else place

    def _event(self, kind: str, value: JsonObject) -> SseEvent:
        self._number += 1
        return event_of({"type": kind, "sequence_number": self._number - 1, **value}, kind)


def _part(text: str) -> JsonObject:
    return {"type": "output_text", "text": text, "annotations": [], "logprobs": []}


def _free_text(arguments: str) -> str:
    try:
        return string(read_object(arguments or "{}").get("input"))
    except ValueError:
        return arguments
