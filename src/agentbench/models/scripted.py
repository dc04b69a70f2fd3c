"""A model whose answers are written down beforehand: for tests, examples, and trying a harness without a key.

```yaml
answers:
  - text: "I look first."
    tool_calls:
      - {name: read_file, arguments: {path: calc.py}}     # or arguments_text: "{not json"
  - when: "2 failed"                                        # only for a request that holds this; else it is passed over
    text: "done"
    usage: {prompt: 120, completion: 8}
  - error: {status: 500, message: "out of order"}
after: repeat        # or fail (the default): what comes when all answers are used
```
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Literal

import yaml
from pydantic import BaseModel, ConfigDict, Field, JsonValue, ValidationError

from agentbench.core.errors import ContractError, InputError, ModelFault
from agentbench.models.client.endpoint import Dialect
from agentbench.models.client.response_errors import fault_of
from agentbench.models.dialects.usage import estimated
from agentbench.models.faults import ReplayExhausted
from agentbench.models.json_values import JsonObject, arr, dump, obj
from agentbench.models.sse import DONE, SseEvent, event_of
from agentbench.models.upstream import ModelRequest, ModelResponse

MAX_FILE = 16 << 20
_STEP = 40
"""Characters of text per chunk of a stream."""


class _Closed(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


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
        InputError: the file cannot be read; a ContractError with all its problems when it is no script.
    """
    try:
        if path.stat().st_size > MAX_FILE:
            msg = f"the model script {path} is larger than {MAX_FILE} bytes"
            raise InputError(msg)
        data = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, yaml.YAMLError, RecursionError) as error:
        msg = f"the model script {path} cannot be read: {error}"
        raise InputError(msg) from None
    try:
        return ModelScript.model_validate(data)
    except ValidationError as error:
        problems = tuple(f"{path}: {'.'.join(map(str, one['loc'])) or 'file'}: {one['msg']}" for one in error.errors())
        raise ContractError(f"the model script {path} cannot be used", problems=problems) from None


class ScriptedUpstream:
    """An `Upstream` that answers from a script, one answer per request. Made anew for every attempt."""

    dialects = frozenset({Dialect.CHAT})

    def __init__(self, script: ModelScript) -> None:
        self._script = script
        self._next = 0
        self._asked = 0
        self._lock = threading.Lock()

    def send(self, call: ModelRequest) -> ModelResponse:
        answer, number = self._take(call)
        if answer.delay_sec and call.cancel.wait(answer.delay_sec):
            raise ModelFault("nobody waits for the answer any more")
        if answer.error is not None:
            raise fault_of(answer.error.status, answer.error.message.encode())
        body = _body(answer, number, call)
        return ModelResponse(events=_chunks(body)) if call.stream else ModelResponse(body)

    def _take(self, call: ModelRequest) -> tuple[ScriptedAnswer, int]:
        asked = dump(call.body)
        with self._lock:
            self._asked += 1
            answers = self._script.answers
            while self._next < len(answers):
                answer = answers[self._next]
                self._next += 1
                if answer.when is None or dump(answer.when)[1:-1] in asked:
                    return answer, self._asked
            if self._script.after == "repeat" and answers:
                return answers[-1], self._asked
        raise ReplayExhausted(f"the script has {len(self._script.answers)} answers, and more is asked")


def _body(answer: ScriptedAnswer, number: int, call: ModelRequest) -> JsonObject:
    message: JsonObject = {"role": "assistant", "content": answer.text or None}
    if answer.tool_calls:
        message["tool_calls"] = [_call(one, f"call_{number}_{at}") for at, one in enumerate(answer.tool_calls)]
    usage = answer.usage
    if usage is None:
        guess = estimated(len(dump(call.body["messages"])), len(dump(message)))
        usage = ScriptedUsage(prompt=guess.prompt, completion=guess.completion)
    return {
        "id": f"chatcmpl-scripted-{number}",
        "object": "chat.completion",
        "created": 0,
        "model": call.body.get("model"),
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


def _call(call: ScriptedCall, name: str) -> JsonObject:
    text = call.arguments_text if call.arguments_text is not None else dump(call.arguments or {})
    return {"id": call.id or name, "type": "function", "function": {"name": call.name, "arguments": text}}


def _chunks(body: JsonObject) -> Iterator[SseEvent]:
    """The same answer as a stream."""
    head: JsonObject = {name: body[name] for name in ("id", "created", "model")} | {"object": "chat.completion.chunk"}
    choice = obj(arr(body["choices"])[0])
    message = obj(choice["message"])

    def chunk(delta: JsonObject, finish: JsonValue = None) -> SseEvent:
        return event_of(head | {"choices": [{"index": 0, "delta": delta, "finish_reason": finish}], "usage": None})

    yield chunk({"role": "assistant", "content": ""})
    text = str(message["content"] or "")
    for at in range(0, len(text), _STEP):
        yield chunk({"content": text[at : at + _STEP]})
    for index, call in enumerate(arr(message.get("tool_calls"))):
        yield chunk({"tool_calls": [{"index": index, **obj(call)}]})
    yield chunk({}, choice["finish_reason"])
    yield event_of(head | {"choices": [], "usage": body["usage"]})
    yield SseEvent(DONE)
