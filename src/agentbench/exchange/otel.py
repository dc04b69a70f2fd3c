"""Write a run as OpenTelemetry traces with the semantic conventions for generative AI.

One attempt is one trace: a span `invoke_agent` with a child for each model request, tool call and check. `--out FILE` gets one
OTLP request per line, as the collector's file exporter writes them; `--out http://…` sends each to an OTLP/HTTP receiver. The agent's
span has the whole conversation once; spans of requests have only the reply.
"""

from __future__ import annotations

import hashlib
import json
import os
import time
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import Self
from urllib.parse import unquote

import httpx

from agentbench.core.canonical import Json
from agentbench.core.errors import InputError
from agentbench.core.text import printable
from agentbench.exchange.attempt_trace import AttemptTrace, ModelRequest, ToolRun, TraceMessage
from agentbench.exchange.output_file import json_bytes, output_file
from agentbench.exchange.registry import Written
from agentbench.exchange.source_run import SourceRun
from agentbench.record.headline import headline
from agentbench.record.schema import AttemptRecord, CheckRecord

HEADERS_VARIABLE = "OTEL_EXPORTER_OTLP_HEADERS"
TRACES_PATH = "/v1/traces"
RETRIED = frozenset({429, 502, 503, 504})
TRIES = 4
INTERNAL, CLIENT = 1, 3
ERROR = 2

JsonDict = dict[str, Json]


def write(run: SourceRun, out: str) -> Written:
    """Write the traces to a file, or send them to an address."""
    requests = (json_bytes(request_of(trace, run)) for trace in run.traces())
    attempts = size = 0
    if out.startswith(("http://", "https://")):
        with _Receiver(out) as receiver:
            for body in requests:
                receiver.send(body)
                attempts, size = attempts + 1, size + len(body)
    else:
        with output_file(out) as file:
            for body in requests:
                file.write(body + b"\n")
                attempts, size = attempts + 1, size + len(body) + 1
    return Written(attempts, size)


class _Receiver:
    """An OTLP/HTTP receiver. Headers come from $OTEL_EXPORTER_OTLP_HEADERS, as for every OpenTelemetry exporter."""

    def __init__(self, address: str) -> None:
        try:
            given = httpx.URL(address)
        except httpx.InvalidURL as error:
            raise InputError(f"--out: not an address: {error}") from None
        if not given.host:
            raise InputError("--out: the address has no host")
        if given.userinfo:
            raise InputError("--out: the address must not contain a password", remedy=f"set {HEADERS_VARIABLE}")
        self.url = str(given if given.path.strip("/") else given.copy_with(path=TRACES_PATH))
        self._client = httpx.Client(timeout=30, headers={**_headers(), "content-type": "application/json"})

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._client.close()

    def send(self, body: bytes) -> None:
        """
        Raises:
            InputError: the receiver cannot be reached, or refuses the data.
        """
        response = self._post(body)
        for number in range(1, TRIES):
            if response.status_code not in RETRIED:
                break
            time.sleep(0.2 * 2**number)
            response = self._post(body)
        if response.status_code != httpx.codes.OK:
            reply = printable(response.text[:200])
            raise InputError(f"{self.url} answered {response.status_code}: {reply}")
        self._require_accepted(response)

    def _post(self, body: bytes) -> httpx.Response:
        try:
            return self._client.post(self.url, content=body)
        except httpx.HTTPError as error:
            msg = f"cannot send to {self.url}: {str(error) or type(error).__name__}"
            raise InputError(msg, remedy="start a receiver there, or write to a file") from error

    def _require_accepted(self, response: httpx.Response) -> None:
        try:
            partial = response.json().get("partialSuccess") or {}
            rejected = int(partial.get("rejectedSpans") or 0)
        except (ValueError, AttributeError, TypeError):
            return
        if rejected:
            raise InputError(
                f"{self.url} rejected {rejected} spans: {printable(str(partial.get('errorMessage'))[:200])}"
            )


def _headers() -> dict[str, str]:
    pairs = (pair.partition("=") for pair in os.environ.get(HEADERS_VARIABLE, "").split(",") if "=" in pair)
    return {name.strip(): unquote(value.strip()) for name, _, value in pairs}


# --- one attempt ------------------------------------------------------------------------------------------------------


def request_of(trace: AttemptTrace, run: SourceRun) -> JsonDict:
    """Return one attempt as an OTLP export request."""
    record = trace.record
    resource: JsonDict = {
        "service.name": "agentbench",
        "service.version": record.harness_version,
        "agentbench.run_id": record.run_id,
        "agentbench.suite": record.suite,
        "agentbench.run_state": run.state,
    }
    scope: JsonDict = {"name": "agentbench", "version": record.harness_version}
    spans: list[Json] = list(_spans(trace))
    return {
        "resourceSpans": [
            {
                "resource": {"attributes": _attributes(resource)},
                "scopeSpans": [{"scope": scope, "spans": spans}],
            }
        ]
    }


def _spans(trace: AttemptTrace) -> Iterator[JsonDict]:
    record = trace.record
    root = _root(trace)
    yield root
    base: JsonDict = {"traceId": root["traceId"], "parentSpanId": root["spanId"]}
    for request in trace.requests:
        yield base | _request_span(trace, request)
    for tool in trace.tools:
        yield base | _tool_span(record, tool)
    for check in record.checks:
        yield base | _check_span(record, check)


def _root(trace: AttemptTrace) -> JsonDict:
    record = trace.record
    path = [trace.messages[number] for number in trace.main_path()]
    said, reply = (path[:-1], path[-1:]) if path and path[-1].role == "assistant" else (path, [])
    ended = _nanoseconds(record.timestamps.ended_at)
    attributes: JsonDict = {
        "gen_ai.operation.name": "invoke_agent",
        "gen_ai.provider.name": record.model.provider or "none",
        "gen_ai.agent.name": record.agent,
        "gen_ai.agent.id": record.variant,
        "gen_ai.agent.version": record.harness_version,
        "gen_ai.conversation.id": record.attempt_id,
        "gen_ai.request.model": record.model.name,
        "gen_ai.request.temperature": record.model.temperature,
        "gen_ai.usage.input_tokens": record.usage.prompt_tokens,
        "gen_ai.usage.output_tokens": record.usage.completion_tokens,
        "gen_ai.usage.cache_read.input_tokens": record.usage.cached_tokens,
        "gen_ai.input.messages": _messages(said),
        "gen_ai.output.messages": _messages(reply, finish="stop"),
        "agentbench.task_id": record.task_id,
        "agentbench.repeat": record.repeat,
        "agentbench.contract_id": record.contract_id,
        "agentbench.passed": record.result.passed,
        "agentbench.run_status": str(record.run_status),
        "agentbench.failure_reason": record.result.failure_reason and str(record.result.failure_reason),
        "agentbench.termination": str(record.termination.code),
        "agentbench.cost": record.cost.total if record.cost.known else None,
        "agentbench.cost_unit": record.cost.unit,
        "agentbench.notes": list(trace.notes),
    }
    evaluation: JsonDict = {
        "gen_ai.evaluation.name": "contract",
        "gen_ai.evaluation.score.value": float(record.result.passed),
        "gen_ai.evaluation.score.label": "pass" if record.result.passed else str(record.run_status),
        "gen_ai.evaluation.explanation": headline(record),
    }
    span: JsonDict = {
        "traceId": _hex(record.attempt_id, 32),
        "spanId": _hex(record.attempt_id + "/root", 16),
        "name": f"invoke_agent {record.agent}",
        "kind": INTERNAL,
        "startTimeUnixNano": str(_nanoseconds(record.timestamps.started_at)),
        "endTimeUnixNano": str(ended),
        "attributes": _attributes(attributes),
        "events": [
            {
                "timeUnixNano": str(ended),
                "name": "gen_ai.evaluation.result",
                "attributes": _attributes(evaluation),
            }
        ],
    }
    if record.run_status == "invalid":
        span["status"] = {"code": ERROR, "message": headline(record)}
        span["attributes"] = _attributes({**attributes, "error.type": str(record.invalid_cause)})
    return span


def _request_span(trace: AttemptTrace, request: ModelRequest) -> JsonDict:
    reply = None if request.reply is None else trace.messages[request.reply]
    response = request.response
    attributes: JsonDict = {
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": request.provider,
        "gen_ai.request.model": request.model,
        "gen_ai.conversation.id": trace.record.attempt_id,
        "gen_ai.usage.input_tokens": response.prompt_tokens if response else None,
        "gen_ai.usage.output_tokens": response.completion_tokens if response else None,
        "gen_ai.usage.cache_read.input_tokens": response.cached_tokens if response else None,
        "gen_ai.output.messages": _messages([reply], finish="tool_call" if reply.calls else "stop") if reply else None,
        "agentbench.cost_usd": response.cost_micro_usd / 1e6 if response else None,
    }
    times = (request.started_us, request.ended_us)
    return _span(f"{trace.record.attempt_id}/{request.seq}", f"chat {request.model}", times, attributes, request.error)


def _tool_span(record: AttemptRecord, tool: ToolRun) -> JsonDict:
    attributes: JsonDict = {
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.tool.name": tool.tool,
        "gen_ai.tool.call.id": tool.id,
        "gen_ai.tool.type": "function",
        "gen_ai.tool.call.arguments": json.dumps(tool.arguments),
        "gen_ai.tool.call.result": tool.output,
        "agentbench.by_agent": tool.by_agent,
        "agentbench.exit_code": tool.finished.exit_code if tool.finished else None,
    }
    times = (tool.started_us, tool.ended_us)
    return _span(f"{record.attempt_id}/{tool.seq}", f"execute_tool {tool.tool}", times, attributes, tool.error)


def _check_span(record: AttemptRecord, check: CheckRecord) -> JsonDict:
    attributes: JsonDict = {
        "agentbench.check.id": check.id,
        "agentbench.check.layer": check.layer,
        "agentbench.check.outcome": str(check.outcome),
        "agentbench.check.assurance": str(check.assurance),
        "agentbench.check.mandatory": check.mandatory,
        "agentbench.check.exit_code": check.exit_code,
        "agentbench.check.why": check.why,
    }
    began = _nanoseconds(check.started_at) // 1000
    times = (began, began + int(check.duration_sec * 1e6))
    error = check.why if check.outcome == "error" else ""
    return _span(f"{record.attempt_id}/check/{check.id}", f"check {check.id}", times, attributes, error)


def _span(key: str, name: str, times: tuple[int, int], attributes: Mapping[str, Json], error: str) -> JsonDict:
    """Return a child span. `key` is unique in the run; times are microseconds."""
    span: JsonDict = {
        "spanId": _hex(key, 16),
        "name": name,
        "kind": CLIENT if name.startswith("chat ") else INTERNAL,
        "startTimeUnixNano": str(times[0] * 1000),
        "endTimeUnixNano": str(times[1] * 1000),
        "attributes": _attributes({**attributes, "error.type": "_OTHER" if error else None}),
    }
    if error:
        span["status"] = {"code": ERROR, "message": error}
    return span


# --- values -----------------------------------------------------------------------------------------------------------


def _messages(messages: Sequence[TraceMessage], finish: str = "") -> str:
    """Return messages in the form that the conventions give them, as JSON text."""
    values = []
    for message in messages:
        parts: list[Json] = []
        if message.role == "tool":
            parts.append({"type": "tool_call_response", "id": message.answers, "response": message.text})
        elif message.text or not message.calls:
            parts.append({"type": "text", "content": message.text})
        for call in message.calls:
            arguments: Json = dict(call.arguments) if call.malformed is None else call.malformed
            parts.append({"type": "tool_call", "id": call.id, "name": call.name, "arguments": arguments})
        value: JsonDict = {"role": message.role, "parts": parts}
        if finish:
            value["finish_reason"] = finish
        values.append(value)
    return json.dumps(values)


def _attributes(values: Mapping[str, Json]) -> list[Json]:
    return [{"key": key, "value": _any_value(value)} for key, value in values.items() if value is not None]


def _any_value(value: Json) -> JsonDict:
    match value:
        case bool():
            return {"boolValue": value}
        case int():
            return {"intValue": str(value)}
        case float():
            return {"doubleValue": value}
        case list():
            return {"arrayValue": {"values": [_any_value(item) for item in value]}}
        case _:
            return {"stringValue": str(value)}


def _nanoseconds(iso: str) -> int:
    """
    Raises:
        InputError: not a time.
    """
    try:
        return max(0, int(datetime.fromisoformat(iso).timestamp() * 1e6)) * 1000
    except (ValueError, OverflowError):
        raise InputError(f"a record has the time {iso[:100]!r}, which is not ISO 8601") from None


def _hex(text: str, length: int) -> str:
    """Derive an id, so that exporting a run twice gives the same trace."""
    return hashlib.sha256(text.encode()).hexdigest()[:length]
