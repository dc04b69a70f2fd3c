"""The metered model: every model request of one attempt passes through it, whether from our agent or from a sandbox.

It checks the budget, logs request and response, pins the model, counts tokens and settles the cost. The events hold the complete
exchange (in blobs where it is long), so the trace is the recording that `recorded:RUN` replays.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Generator, Mapping
from dataclasses import field, replace
from typing import Protocol

from pydantic import JsonValue

from agentbench.core.dataclass import dataclass
from agentbench.core.errors import ModelFault, RecordError
from agentbench.core.reasons import TerminationCode
from agentbench.models.client.endpoint import Dialect
from agentbench.models.dialects.usage import StreamUsage, bound, estimated, usage_of
from agentbench.models.faults import BudgetReached, ServiceFault, label_of
from agentbench.models.forbidden_requests import forbidden_parts, without_forbidden_parts
from agentbench.models.json_values import JsonObject, dump, obj
from agentbench.models.ledger import Account, Amount, Hold
from agentbench.models.protocol import TokenUsage
from agentbench.models.recording.stream_redaction import redact_stream
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
_OVER = "the attempt is over"
_PARAMETERS = (
    *("temperature", "top_p", "max_tokens", "max_completion_tokens", "max_output_tokens", "stop", "seed"),
    *("tool_choice", "reasoning_effort"),
)
_MAX_PARAMETER = 1000


class EventSink(Protocol):
    """Where a metered model writes its events."""

    def write(self, payload: Payload, actor: Actor = "harness", *, unless: Callable[[], bool] | None = None) -> int: ...

    def excerpt(self, data: bytes, *, limit: int = LIMIT, original: bytes | None = None) -> Excerpt: ...


class LogSink:
    """An event log and its blobs as an `EventSink`."""

    def __init__(self, log: EventLog, blobs: BlobStore | None) -> None:
        self._log = log
        self._blobs = blobs

    def write(self, payload: Payload, actor: Actor = "harness", *, unless: Callable[[], bool] | None = None) -> int:
        return self._log.append(payload, actor, unless=unless)

    def excerpt(self, data: bytes, *, limit: int = LIMIT, original: bytes | None = None) -> Excerpt:
        return take_excerpt(data, store=self._blobs, limit=limit, original=original)


class RequestObserver(Protocol):
    """Is told about the model requests of an attempt, on the thread of the client."""

    def before_request(self) -> None: ...

    def before_response(self) -> None: ...

    def is_over(self) -> bool:
        """Return whether the attempt was ended, so that no request may follow. Called while the log is locked."""
        ...

    def budget_refused(self, code: TerminationCode, why: str, *, shared: bool) -> None: ...

    def model_waits(self, since: float, until: float) -> None:
        """A request waits for a service that is unavailable."""
        ...

    def model_unavailable(self, why: str) -> None:
        """A request has waited in vain."""
        ...


@dataclass(frozen=True, slots=True)
class ModelIdentity:
    """The model an attempt uses, whatever name a client asks for. `overrides` replace parameters that the client sends."""

    provider: str
    name: str
    overrides: Mapping[str, JsonValue] = field(default_factory=dict)


@dataclass(slots=True)
class _Exchange:
    """An exchange in progress."""

    request: ModelRequest
    index: int
    raw: bytes
    hold: Hold | None = None
    began: float = field(default_factory=time.monotonic)
    ended: bool = False
    streamed: bytes | None = None
    """The response as it was streamed, before redaction; None if it was not a stream."""

    @property
    def size(self) -> int:
        return len(self.raw)

    @property
    def request_id(self) -> str:
        return f"m{self.index + 1}"


class MeteredModel:
    """An `Upstream` for one attempt. Close it when the agent phase is over, before the log is closed."""

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
        """Why the attempt must end: set once a request was refused because a budget is spent."""
        self.fault: ModelFault | None = None
        """The fault of the last exchange, or None if it succeeded."""
        self.last_event = 0
        """Number of the event that ended the last exchange; an ending refers to it as evidence."""
        self.requests = 0
        self.observer: RequestObserver | None = None
        self._upstream = upstream
        self._account = account
        self._prices = prices
        self._sink = sink
        self._redact = redact
        self._lock = threading.Lock()
        self._open: dict[int, _Exchange] = {}
        self._closed = False

    def send(self, request: ModelRequest) -> ModelResponse:
        """
        Raises:
            ModelFault: no usable response; `BudgetReached` if a budget is spent.
        """
        exchange = self._begin(request)
        try:
            usage = bound(request.body, exchange.size)
            estimate = Amount(self._cost(usage), usage.total)
            exchange.hold = self._account.admit(estimate, cancelled=lambda: bool(request.cancel))
            allowed = without_forbidden_parts(request.dialect, request.body)
            body = {**allowed, "model": self.identity.name, **self.identity.overrides}
            response = self._upstream.send(replace(request, body=body, raw=exchange.raw, on_outage=self._wait))
        except ModelFault as fault:
            self._end(exchange, b"", TokenUsage(), fault, late=bool(request.cancel))
            raise
        except BaseException:
            self._end(exchange, b"", TokenUsage(), ModelFault("the exchange was aborted"))
            raise
        if response.streams:
            return self._watch(exchange, response)
        raw = response.raw or dump(response.body).encode("utf-8", "surrogatepass")
        usage = usage_of(request.dialect, response.body) or estimated(exchange.size, len(raw))
        self._end(exchange, raw, usage, None)
        return ModelResponse(response.body, raw=raw, close=response.close)

    def _wait(self, since: float, until: float) -> None:
        if self.observer is not None:
            self.observer.model_waits(since, until)

    def close(self) -> None:
        """Log open exchanges as abandoned, at the cost of their prompt. No events are written after this."""
        with self._lock:
            self._closed = True
            open_exchanges = list(self._open.values())
        for exchange in open_exchanges:
            exchange.request.cancel.set()
            self._end(exchange, b"", estimated(exchange.size, 0), ModelFault("the client did not wait"), late=True)

    def _begin(self, request: ModelRequest) -> _Exchange:
        raw = request.raw or dump(request.body).encode("utf-8", "surrogatepass")
        messages = self._sink.excerpt(raw)
        if self.observer is not None:
            self.observer.before_request()
        # A recording is replayed in the order of its events.
        with self._lock:
            if self._closed:
                raise ModelFault(_OVER)
            index = self.requests
            exchange = _Exchange(request, index, raw)
            written = self._sink.write(
                LlmRequest(
                    request_id=exchange.request_id,
                    provider=self.identity.provider,
                    model=self.identity.name,
                    parameters=_parameters(request),
                    messages=messages,
                    conversation_index=2 * index,
                ),
                "agent",
                unless=None if self.observer is None else self.observer.is_over,
            )
            if not written:
                raise ModelFault(_OVER)
            self._open[index] = exchange
            self.requests += 1
        return exchange

    def _watch(self, exchange: _Exchange, response: ModelResponse) -> ModelResponse:
        events = self._watched_events(exchange, response)

        def close() -> None:
            response.close()
            events.close()
            # The generator of a stream that was never read does not run its `finally`.
            self._end(exchange, b"", estimated(exchange.size, 0), ModelFault("the response was not read"), late=True)

        return ModelResponse(events=events, close=close)

    def _watched_events(self, exchange: _Exchange, response: ModelResponse) -> Generator[SseEvent]:
        request = exchange.request
        stated, content = StreamUsage(request.dialect), bytearray()
        hide_usage = request.dialect is Dialect.CHAT and not obj(request.body.get("stream_options")).get(
            "include_usage"
        )
        fault: ModelFault | None = ModelFault("the client disconnected during the response")
        late = True

        def usage() -> TokenUsage:
            return stated.usage or estimated(exchange.size, stated.text_bytes // 8)

        try:
            for event in response.events:
                content += event.encode()
                stated.see(event)
                if event.data == DONE or event.event in LAST_EVENTS:
                    # Log before the client knows that the response is complete: it may disconnect right after.
                    self._end(exchange, self._redacted(exchange, bytes(content)), usage(), None)
                # The client did not ask for the chunk that states the usage, and may not understand it.
                if not (hide_usage and '"usage"' in event.data and event.object().get("choices") == []):
                    yield event
            fault, late = None, False
        except ModelFault as error:
            # Cancelling also breaks the connection, so the fault may only mean that the client is gone.
            fault, late = error, bool(request.cancel)
            raise
        finally:
            if not exchange.ended:
                self._end(exchange, self._redacted(exchange, bytes(content)), usage(), fault, late=late)

    def _redacted(self, exchange: _Exchange, content: bytes) -> bytes:
        exchange.streamed = content
        return redact_stream(content, self._redact)

    def _end(
        self, exchange: _Exchange, content: bytes, usage: TokenUsage, fault: ModelFault | None, *, late: bool = False
    ) -> None:
        """Settle and log an exchange, once. `late`: the client was gone before the response was complete."""
        if self.observer is not None and not exchange.ended:
            self.observer.before_response()
        # The event is written under the lock, so that `close` waits for it.
        with self._lock:
            if exchange.ended:
                return
            exchange.ended = True
            self._open.pop(exchange.index, None)
            if isinstance(fault, BudgetReached):
                self.stopped = self.stopped or fault
            elif not late:
                self.fault = fault
            self._log_end(exchange, content, usage, fault, late=late)
        if self.observer is not None and isinstance(fault, BudgetReached):
            self.observer.budget_refused(fault.code, fault.message, shared=fault.scope != "attempt")
        if self.observer is not None and isinstance(fault, ServiceFault) and fault.outage and not late:
            self.observer.model_unavailable(fault.message)

    def _log_end(
        self, exchange: _Exchange, content: bytes, usage: TokenUsage, fault: ModelFault | None, *, late: bool
    ) -> None:
        spent = Amount() if exchange.hold is None else Amount(self._cost(usage) if usage.total else 0, usage.total)
        if exchange.hold is not None:
            exchange.hold.settle(spent)
        try:
            self.last_event = self._sink.write(
                LlmResponse(
                    request_id=exchange.request_id,
                    status=ABANDONED if late else OK if fault is None else label_of(fault),
                    content=self._sink.excerpt(content, original=exchange.streamed),
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
            # After `close` the log may be closed too. Before, a log that cannot be written must end the attempt.
            if not self._closed:
                raise

    def _cost(self, usage: TokenUsage) -> int:
        return self._prices.request(self.identity.name, Tokens(usage.prompt, usage.completion, usage.cached))


def _parameters(request: ModelRequest) -> JsonObject:
    """Return the parameters of a request besides its messages. Fractions are text, because events hold no floats."""
    body = request.body
    parameters: JsonObject = {
        "dialect": str(request.dialect),
        "stream": request.stream,
        "asked_model": _short(body.get("model")),
    }
    parameters |= {name: _short(body[name]) for name in _PARAMETERS if body.get(name) is not None}
    tools = body.get("tools")
    if isinstance(tools, list):
        parameters["tools"] = len(tools)
    if left_out := forbidden_parts(request.dialect, body):
        parameters["left_out"] = _short(" ".join(left_out))
    return parameters


def _short(value: JsonValue) -> JsonValue:
    """Shorten a parameter for the event, which also holds the complete request."""
    if value is None or isinstance(value, int):
        return value
    try:
        return (value if isinstance(value, str) else dump(value))[:_MAX_PARAMETER]
    except RecursionError:
        return "[nested too deep]"
