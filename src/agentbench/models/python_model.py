"""Models that a script or a notebook passes in: its own process answers the requests."""

from __future__ import annotations

import threading

from agentbench.core.errors import InputError, ModelFault
from agentbench.models.client.endpoint import Dialect
from agentbench.models.json_values import JsonObject, arr, obj, text_of
from agentbench.models.protocol import Message, Model, Reply, ToolCall, ToolSpec
from agentbench.models.scripted import ScriptedAnswer, ScriptedCall, ScriptedUsage, respond
from agentbench.models.upstream import ModelRequest, ModelResponse

PYTHON_MODELS: dict[str, Model] = {}
"""Models of this process, by name. `--model python:NAME` in a recorded configuration means one of them."""
_FINISH = {"stop", "tool_calls", "length"}


def python_model(name: str) -> Model:
    """
    Raises:
        InputError: this process has no such model.
    """
    if name not in PYTHON_MODELS:
        msg = f"model '{name}' was passed in from Python and is not in this process"
        raise InputError(msg, remedy="start the run from Python, with model=…")
    return PYTHON_MODELS[name]


class PythonUpstream:
    """An `Upstream` that asks a model of this process. Metering and recording work as for any other."""

    dialects = frozenset({Dialect.CHAT})

    def __init__(self, model: Model) -> None:
        self._model = model
        self._lock = threading.Lock()
        self._requests = 0

    def send(self, request: ModelRequest) -> ModelResponse:
        with self._lock:
            self._requests += 1
            number = self._requests
        limit = request.body.get("max_tokens")
        messages = [_message(obj(value)) for value in arr(request.body.get("messages"))]
        tools = [_tool(obj(obj(value)["function"])) for value in arr(request.body.get("tools"))]
        try:
            reply = self._model.complete(messages, tools, max_tokens=limit if isinstance(limit, int) else None)
        except ModelFault:
            raise
        except Exception as error:
            raise ModelFault(f"model '{self._model.name}' raised {type(error).__name__}: {error}") from error
        return respond(request, _answer(reply), number)


def _answer(reply: Reply) -> ScriptedAnswer:
    usage = reply.usage
    stated = ScriptedUsage(prompt=usage.prompt, completion=usage.completion, cached=usage.cached)
    return ScriptedAnswer(
        text=reply.text,
        tool_calls=tuple(
            ScriptedCall(name=call.name, arguments_text=call.arguments_text, id=call.id) for call in reply.tool_calls
        ),
        usage=stated if usage.total else None,
        finish=str(reply.finish) if not reply.tool_calls and reply.finish in _FINISH else None,  # type: ignore[arg-type]
    )


def _message(value: JsonObject) -> Message:
    calls = [obj(call) for call in arr(value.get("tool_calls"))]
    role = str(value.get("role"))
    return Message(
        "system" if role == "developer" else role,  # type: ignore[arg-type]
        text_of(value.get("content")),
        tuple(ToolCall(str(call["id"]), str(obj(call["function"])["name"]), _arguments(call)) for call in calls),
        None if value.get("tool_call_id") is None else str(value["tool_call_id"]),
    )


def _arguments(call: JsonObject) -> str:
    return str(obj(call["function"]).get("arguments") or "")


def _tool(function: JsonObject) -> ToolSpec:
    return ToolSpec(
        str(function["name"]), str(function.get("description") or ""), obj(function.get("parameters") or {})
    )
