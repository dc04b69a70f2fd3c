"""A model with predefined responses, for tests, examples and trials without a key.

```yaml
answers:
  - text: "I look first."
    tool_calls:
      - {name: read_file, arguments: {path: calc.py}}     # or arguments_text: "{not json"
  - when: "2 failed"                                        # only for a request that contains this; else skipped
    text: "done"
    usage: {prompt: 120, completion: 8}
  - error: {status: 500, message: "out of order"}
after: repeat        # repeat the last answer when all are used, or fail (the default)
```
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, JsonValue

from agentbench.contract.problem import InvalidFileError
from agentbench.contract.schema_problems import validate_document
from agentbench.contract.yaml_document import read_document
from agentbench.core.errors import ModelFault
from agentbench.models.client.endpoint import Dialect
from agentbench.models.client.response_errors import fault_of
from agentbench.models.dialects.usage import estimated
from agentbench.models.faults import ReplayExhausted
from agentbench.models.json_values import JsonObject, arr, dump, obj
from agentbench.models.sse import DONE, SseEvent, event_of
from agentbench.models.upstream import ModelRequest, ModelResponse

_STEP = 40
"""Characters per chunk of a stream."""


class _Closed(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)


class ScriptedCall(_Closed):
    name: str
    arguments: dict[str, JsonValue] | None = None
    arguments_text: str | None = None
    id: str | None = None


class ScriptedUsage(_Closed):
    prompt: int = Field(default=0, ge=0)
    completion: int = Field(default=0, ge=0)
    cached: int = Field(default=0, ge=0)


class ScriptedError(_Closed):
    status: int = Field(ge=400, le=599)
    message: str = ""


class ScriptedAnswer(_Closed):
    text: str = ""
    tool_calls: tuple[ScriptedCall, ...] = ()
    usage: ScriptedUsage | None = None
    finish: Literal["stop", "tool_calls", "length", "content_filter"] | None = None
    error: ScriptedError | None = None
    delay_sec: float = Field(default=0.0, ge=0, le=3600)
    when: str | None = None


class ModelScript(_Closed):
    answers: tuple[ScriptedAnswer, ...]
    after: Literal["fail", "repeat"] = "fail"


def load_script(path: Path) -> ModelScript:
    """
    Raises:
        ContractError: the file cannot be read or is invalid; lists all problems with their lines.
    """
    document = read_document(path)
    validated = validate_document(document, ModelScript)
    if validated.problems or validated.model is None:
        raise InvalidFileError(document.file, validated.problems)
    return validated.model


class ScriptedUpstream:
    """An `Upstream` that answers from a script, one answer per request. Each attempt needs a new one."""

    dialects = frozenset({Dialect.CHAT})

    def __init__(self, script: ModelScript) -> None:
        self._script = script
        self._next = 0
        self._requests = 0
        self._lock = threading.Lock()

    def send(self, request: ModelRequest) -> ModelResponse:
        answer, number = self._take(request)
        if answer.delay_sec and request.cancel.wait(answer.delay_sec):
            raise ModelFault("the request was cancelled")
        if answer.error is not None:
            raise fault_of(answer.error.status, answer.error.message.encode())
        return respond(request, answer, number)

    def _take(self, request: ModelRequest) -> tuple[ScriptedAnswer, int]:
        text = dump(request.body)
        with self._lock:
            self._requests += 1
            answers = self._script.answers
            while self._next < len(answers):
                answer = answers[self._next]
                self._next += 1
                if answer.when is None or dump(answer.when)[1:-1] in text:
                    return answer, self._requests
            if self._script.after == "repeat" and answers:
                return answers[-1], self._requests
        raise ReplayExhausted(f"the script has only {len(self._script.answers)} answers")


def respond(request: ModelRequest, answer: ScriptedAnswer, number: int) -> ModelResponse:
    """Return an answer as the response to a chat request, streamed if the request asks for that."""
    body = _body(answer, number, request)
    return ModelResponse(events=_chunks(body)) if request.stream else ModelResponse(body)


def _body(answer: ScriptedAnswer, number: int, request: ModelRequest) -> JsonObject:
    message: JsonObject = {"role": "assistant", "content": answer.text or None}
    if answer.tool_calls:
        message["tool_calls"] = [_call(call, f"call_{number}_{index}") for index, call in enumerate(answer.tool_calls)]
    usage = answer.usage
    if usage is None:
        guess = estimated(len(dump(request.body["messages"])), len(dump(message)))
        usage = ScriptedUsage(prompt=guess.prompt, completion=guess.completion)
    return {
        "id": f"chatcmpl-scripted-{number}",
        "object": "chat.completion",
        "created": 0,
        "model": request.body.get("model"),
        "choices": [
            {
                "index": 0,
                "message": message,
                "finish_reason": answer.finish or ("tool_calls" if answer.tool_calls else "stop"),
            }
        ],
        "usage": {
            "prompt_tokens": usage.prompt,
            "completion_tokens": usage.completion,
            "total_tokens": usage.prompt + usage.completion,
            "prompt_tokens_details": {"cached_tokens": usage.cached},
        },
    }


def _call(call: ScriptedCall, default_id: str) -> JsonObject:
    text = call.arguments_text if call.arguments_text is not None else dump(call.arguments or {})
    return {"id": call.id or default_id, "type": "function", "function": {"name": call.name, "arguments": text}}


def _chunks(body: JsonObject) -> Iterator[SseEvent]:
    """Split a response into the events of a stream."""
    head: JsonObject = {name: body[name] for name in ("id", "created", "model")} | {"object": "chat.completion.chunk"}
    choice = obj(arr(body["choices"])[0])
    message = obj(choice["message"])

    def chunk(delta: JsonObject, finish: JsonValue = None) -> SseEvent:
        return event_of(head | {"choices": [{"index": 0, "delta": delta, "finish_reason": finish}], "usage": None})

    yield chunk({"role": "assistant", "content": ""})
    text = str(message["content"] or "")
    for start in range(0, len(text), _STEP):
        yield chunk({"content": text[start : start + _STEP]})
    for index, call in enumerate(arr(message.get("tool_calls"))):
        yield chunk({"tool_calls": [{"index": index, **obj(call)}]})
    yield chunk({}, choice["finish_reason"])
    yield event_of(head | {"choices": [], "usage": body["usage"]})
    yield SseEvent(DONE)
