"""The metered_model: every request of one attempt passes here, whoever makes it.

It admits a request against the ledger, writes both events, pins the model, watches for the tokens that were used, and settles.
The events hold the exact exchange (whole, in blobs where it is long): the trace is the recording that `recorded:RUN` replays.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Generator, Mapping
from dataclasses import dataclass, field, replace
from typing import Protocol

from pydantic import JsonValue

from agentbench.core.errors import ModelFault, RecordError
from agentbench.models.client.endpoint import Dialect
from agentbench.models.dialects.usage import StreamUsage, bound, estimated, usage_of
from agentbench.models.faults import BudgetReached, label_of
from agentbench.models.forbidden_requests import forbidden_parts, without_forbidden_parts
from agentbench.models.json_values import JsonObject, dump, obj
from agentbench.models.ledger import Account, Amount, Hold
from agentbench.models.protocol import TokenUsage
from agentbench.models.recording.stream_redaction import joined
from agentbench.models.sse import DONE, LAST_EVENTS, SseEvent
from agentbench.models.upstream import ModelRequest, ModelResponse, Upstream
from agentbench.policy.prices import Prices, Tokens
from agentbench.trace.blobs import LIMIT, BlobStore
from agentbench.trace.blobs import excerpt as take_excerpt
from agentbench.trace.events import Actor, Excerpt, LlmRequest, LlmResponse, Payload
from agentbench.trace.log import EventLog
from agentbench.trace.redaction import Redactor

OK = "ok"
ABANDONED = "abandoned"
_PARAMETERS = (
    *("temperature", "top_p", "max_tokens", "max_completion_tokens", "max_output_tokens", "stop", "seed"),
    *("tool_choice", "reasoning_effort"),
)
_MAX_PARAMETER = 1000


class EventSink(Protocol):
    """Where a metered_model writes. A session's journal is one, so that its caps see what models use."""

    def write(self, payload: Payload, actor: Actor = "harness") -> int: ...

    def excerpt(self, data: bytes, *, limit: int = LIMIT) -> Excerpt: ...


class LogSink:
    """A log and its blobs as a `EventSink`."""

    def __init__(self, log: EventLog, blobs: BlobStore | None) -> None:
        self._log = log
        self._blobs = blobs

    def write(self, payload: Payload, actor: Actor = "harness") -> int:
        return self._log.append(payload, actor)

    def excerpt(self, data: bytes, *, limit: int = LIMIT) -> Excerpt:
        return take_excerpt(data, store=self._blobs, limit=limit)


@dataclass(frozen=True, slots=True)
class ModelIdentity:
    """The model that an attempt is given, whatever name a client asks for. `overrides` replace what the client sends."""

    provider: str
    name: str
    overrides: Mapping[str, JsonValue] = field(default_factory=dict)


@dataclass(slots=True)
class _Open:
    """An exchange that has begun."""

    call: ModelRequest
    index: int
    raw: bytes
    hold: Hold | None = None
    began: float = field(default_factory=time.monotonic)
    told: bool = False

    @property
    def size(self) -> int:
        return len(self.raw)

    @property
    def request_id(self) -> str:
        return f"m{self.index + 1}"


class MeteredModel:
    """An `Upstream` for one attempt. Close it when the attempt's agent is done, before the log is."""

    dialects = frozenset(Dialect)

    def __init__(
        self,
        upstream: Upstream,
        identity: ModelIdentity,
        account: Account,
        prices: Prices,
        sink: EventSink,
        redact: Redactor | None = None,
    ) -> None:
        self.identity = identity
        self.stopped: BudgetReached | None = None
        """Set once a request was refused for want of budget: why the run must end."""
        self.fault: ModelFault | None = None
        """The fault of the last exchange; None when it was good."""
        self.last_event = 0
        """Number of the event that ended the last exchange: what an ending can point to."""
        self.requests = 0
        self._upstream = upstream
        self._account = account
        self._prices = prices
        self._sink = sink
        self._redact = redact
        self._lock = threading.Lock()
        self._open: dict[int, _Open] = {}
        self._closed = False

    def send(self, call: ModelRequest) -> ModelResponse:
        """
        Raises:
            ModelFault: no usable answer; a `BudgetReached` when none may be asked for.
        """
        exchange = self._begin(call)
        try:
            usage = bound(call.body, exchange.size)
            estimate = Amount(self._cost(usage), usage.total)
            exchange.hold = self._account.admit(estimate, cancelled=lambda: bool(call.cancel))
            asked = without_forbidden_parts(call.dialect, call.body)
            body = {**asked, "model": self.identity.name, **self.identity.overrides}
            answer = self._upstream.send(replace(call, body=body, raw=exchange.raw))
        except ModelFault as fault:
            self._end(exchange, b"", TokenUsage(), fault, late=bool(call.cancel))
            raise
        except BaseException:
            self._end(exchange, b"", TokenUsage(), ModelFault("the exchange was broken off"))
            raise
        if answer.streams:
            return self._watched(exchange, answer)
        raw = answer.raw or dump(answer.body).encode("utf-8", "surrogatepass")
        self._end(exchange, raw, usage_of(call.dialect, answer.body) or estimated(exchange.size, len(raw)), None)
        return ModelResponse(answer.body, raw=raw, close=answer.close)

    def close(self) -> None:
        """No more events after this. What is still open is written down as abandoned, at the price of its prompt."""
        with self._lock:
            self._closed = True
            left = list(self._open.values())
        for exchange in left:
            exchange.call.cancel.set()
            self._end(exchange, b"", estimated(exchange.size, 0), ModelFault("nobody waited for the answer"), late=True)

    # --- inside -------------------------------------------------------------------------------------------------------

    def _begin(self, call: ModelRequest) -> _Open:
        raw = call.raw or dump(call.body).encode("utf-8", "surrogatepass")
        messages = self._sink.excerpt(raw)
        # The order of the events is the order in which a recording is replayed.
        with self._lock:
            if self._closed:
                raise ModelFault("the attempt is over")
            index = self.requests
            self.requests += 1
            exchange = self._open[index] = _Open(call, index, raw)
            self._sink.write(
                LlmRequest(
                    request_id=exchange.request_id,
                    provider=self.identity.provider,
                    model=self.identity.name,
                    parameters=_parameters(call),
                    messages=messages,
                    conversation_index=2 * index,
                ),
                "agent",
            )
        return exchange

    def _watched(self, exchange: _Open, answer: ModelResponse) -> ModelResponse:
        events = self._watch(exchange, answer)

        def close() -> None:
            answer.close()
            events.close()
            # A stream that nobody began to read has not run its own end.
            self._end(exchange, b"", estimated(exchange.size, 0), ModelFault("nobody read the answer"), late=True)

        return ModelResponse(events=events, close=close)

    def _watch(self, exchange: _Open, answer: ModelResponse) -> Generator[SseEvent]:
        call = exchange.call
        seen, kept = StreamUsage(call.dialect), bytearray()
        hide = call.dialect is Dialect.CHAT and not obj(call.body.get("stream_options")).get("include_usage")
        fault: ModelFault | None = ModelFault("the client went away in the middle of the answer")
        late = True
        try:
            for event in answer.events:
                kept += event.encode()
                seen.see(event)
                if event.data == DONE or event.event in LAST_EVENTS:
                    # Written down before the client can know that it has everything: it may be gone the moment after.
                    whole = joined(bytes(kept), self._redact)
                    self._end(exchange, whole, seen.found or estimated(exchange.size, seen.text_bytes // 8), None)
                # The client did not ask for the chunk that states the tokens, and may stumble over it.
                if not (hide and '"usage"' in event.data and event.object().get("choices") == []):
                    yield event
            fault, late = None, False
        except ModelFault as error:
            # Breaking the connection is also how an answer is ended that nobody waits for.
            fault, late = error, bool(call.cancel)
            raise
        finally:
            usage = seen.found or estimated(exchange.size, seen.text_bytes // 8)
            if not exchange.told:
                self._end(exchange, joined(bytes(kept), self._redact), usage, fault, late=late)

    def _end(
        self, exchange: _Open, content: bytes, usage: TokenUsage, fault: ModelFault | None, *, late: bool = False
    ) -> None:
        """Settle and write down, once. `late`: the client was gone before the answer was."""
        with self._lock:
            if exchange.told:
                return
            exchange.told = True
            self._open.pop(exchange.index, None)
            if isinstance(fault, BudgetReached):
                self.stopped = self.stopped or fault
            elif not late:
                self.fault = fault
        spent = Amount() if exchange.hold is None else Amount(self._cost(usage) if usage.total else 0, usage.total)
        if exchange.hold is not None:
            exchange.hold.settle(spent)
        try:
            self.last_event = self._sink.write(
                LlmResponse(
                    request_id=exchange.request_id,
                    status=ABANDONED if late else OK if fault is None else label_of(fault),
                    content=self._sink.excerpt(content),
                    prompt_tokens=usage.prompt,
                    completion_tokens=usage.completion,
                    cached_tokens=usage.cached,
                    cost_micro_usd=spent.micro,
                    duration_us=int((time.monotonic() - exchange.began) * 1e6),
                    conversation_index=2 * exchange.index + 1,
                    estimated=usage.estimated,
                    error="" if fault is None else fault.message[:2000],
                )
            )
        except RecordError:
            # Only after the end may the log be gone; until then a log that cannot be written ends the run elsewhere too.
            if not self._closed:
                raise

    def _cost(self, usage: TokenUsage) -> int:
        return self._prices.request(self.identity.name, Tokens(usage.prompt, usage.completion, usage.cached))


def _parameters(call: ModelRequest) -> JsonObject:
    """What a request asked for besides its conversation. Numbers that are not whole are text: events hold no floats."""
    found: JsonObject = {
        "dialect": str(call.dialect),
        "stream": call.stream,
        "asked_model": _short(call.body.get("model")),
    }
    for name in _PARAMETERS:
        value = call.body.get(name)
        if value is not None:
            found[name] = _short(value)
    tools = call.body.get("tools")
    if isinstance(tools, list):
        found["tools"] = len(tools)
    if left_out := forbidden_parts(call.dialect, call.body):
        found["left_out"] = _short(" ".join(left_out))
    return found


def _short(value: JsonValue) -> JsonValue:
    """A parameter as an event holds it: the request itself is kept whole beside it."""
    if value is None or isinstance(value, int):
        return value
    try:
        return (value if isinstance(value, str) else dump(value))[:_MAX_PARAMETER]
    except RecursionError:
        return "[nested too deep]"
