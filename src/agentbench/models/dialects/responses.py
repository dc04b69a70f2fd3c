"""OpenAI's responses dialect, for a service that speaks the chat dialect: requests."""

from __future__ import annotations

from collections.abc import Mapping

from pydantic import JsonValue

from agentbench.models.dialects.pieces import arr, dump, obj, string, text_of
from agentbench.models.faults import Rejected
from agentbench.models.protocol import JsonObject

_SAME = ("temperature", "top_p", "stream", "parallel_tool_calls")


def to_chat(body: Mapping[str, JsonValue]) -> JsonObject:
    """A responses request as a chat request. The service's own tools and reasoning items are left out.

    Raises:
        Rejected: it continues a response that only its service would remember.
    """
    if body.get("previous_response_id") or body.get("conversation"):
        msg = "previous_response_id and conversation are not kept here: send the whole input"
        raise Rejected(msg, status=400)
    messages: list[JsonObject] = []
    instructions = string(body.get("instructions"))
    if instructions:
        messages.append({"role": "system", "content": instructions})
    given = body.get("input")
    if isinstance(given, str):
        messages.append({"role": "user", "content": given})
    for item in arr(given):
        _add(messages, obj(item))
    chat: JsonObject = {"model": body.get("model"), "messages": list(messages)}
    chat |= {name: body[name] for name in _SAME if body.get(name) is not None}
    if body.get("max_output_tokens") is not None:
        chat["max_tokens"] = body["max_output_tokens"]
    tools = [tool for tool in (_tool(obj(one)) for one in arr(body.get("tools"))) if tool]
    if tools:
        chat["tools"] = list(tools)
        chat |= _choice(body.get("tool_choice"))
    else:
        chat.pop("parallel_tool_calls", None)
    return chat | _format(obj(obj(body.get("text")).get("format")))


def custom_tools(body: Mapping[str, JsonValue]) -> frozenset[str]:
    """Names of the tools that take free text instead of JSON."""
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
        # Calls of one turn are items of their own here and one message there.
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
