"""Reads the recorded exchanges of an attempt, and replays them for `--model recorded:RUN`."""

from __future__ import annotations

import re
import threading
from collections.abc import Iterable, Iterator
from dataclasses import field, replace
from pathlib import Path

from agentbench.core.dataclass import dataclass
from agentbench.core.errors import ModelFault, RecordError
from agentbench.models import faults
from agentbench.models.client.endpoint import Dialect
from agentbench.models.client.response_errors import ANSWERED
from agentbench.models.faults import ReplayDiverged, ReplayExhausted, ServiceFault
from agentbench.models.json_values import JsonObject, dump, read_object
from agentbench.models.metered_model import ABANDONED, OK
from agentbench.models.recording.request_diff import request_diff
from agentbench.models.sse import SseEvent, read_events
from agentbench.models.upstream import ModelRequest, ModelResponse
from agentbench.trace.blobs import BlobStore
from agentbench.trace.events import Excerpt, LlmRequest, LlmResponse, Payload
from agentbench.trace.log import read_events as read_log
from agentbench.trace.redaction import Redactor

BUDGET = "budget"


@dataclass(frozen=True, slots=True)
class Exchange:
    """One recorded exchange. Exchanges of one `group` were in flight together, so a replay may reorder them."""

    number: int
    group: int
    dialect: Dialect
    request: JsonObject
    answer: bytes
    streams: bool
    status: str
    error: str


@dataclass(frozen=True, slots=True)
class Recording:
    """The exchanges of an attempt, in order."""

    provider: str
    model: str
    exchanges: tuple[Exchange, ...]


@dataclass(slots=True)
class _Reader:
    store: BlobStore
    groups: int = 0
    open: dict[str, tuple[LlmRequest, int]] = field(default_factory=dict)
    exchanges: list[tuple[int, Exchange]] = field(default_factory=list)

    def whole(self, excerpt: Excerpt) -> bytes:
        if excerpt.blob is not None:
            return self.store.get(excerpt.blob)
        if excerpt.truncated:
            raise RecordError("cannot replay: an exchange was not recorded completely")
        return excerpt.data


def read_recording(log: Path, blobs: BlobStore) -> Recording:
    """Read the exchanges of an attempt from its log and its blobs.

    Raises:
        RecordError: they cannot be read, or were not recorded completely.
    """
    return recording_of(
        (event.payload for event in read_log(log, types={LlmRequest.type, LlmResponse.type})), log, blobs
    )


def recording_of(payloads: Iterable[Payload], log: Path, blobs: BlobStore) -> Recording:
    """Pair requests and responses, in their order in `log`, to exchanges.

    Raises:
        RecordError: they cannot be read, or were not recorded completely.
    """
    reader = _Reader(blobs)
    provider, model = "recorded", ""
    for payload in payloads:
        if isinstance(payload, LlmRequest):
            if not reader.open:
                reader.groups += 1
            reader.open[payload.request_id] = (payload, reader.groups)
            provider, model = payload.provider, payload.model
        elif isinstance(payload, LlmResponse) and payload.request_id in reader.open:
            _pair(reader, payload, log)
    reader.exchanges.sort(key=lambda numbered: numbered[0])
    return Recording(provider, model, tuple(exchange for _, exchange in reader.exchanges))


def _pair(reader: _Reader, payload: LlmResponse, log: Path) -> None:
    request, group = reader.open.pop(payload.request_id)
    # A request refused by the budget of that run got no response, and the replay has its own budget.
    if payload.status == BUDGET:
        return
    try:
        body = read_object(reader.whole(request.messages))
        dialect = Dialect(str(request.parameters.get("dialect")))
    except ValueError as error:
        raise RecordError(f"{log}: cannot read request {request.request_id}: {error}") from None
    exchange = Exchange(
        number=request.conversation_index // 2 + 1,
        group=group,
        dialect=dialect,
        request=body,
        answer=reader.whole(payload.content),
        streams=request.parameters.get("stream") is True,
        status=payload.status,
        error=payload.error,
    )
    reader.exchanges.append((request.conversation_index, exchange))


class RecordedUpstream:
    """An `Upstream` that replays a recording. Requests are matched in sequence; the first that differs stops it.

    `lenient` continues with the next recorded response anyway, and collects `divergences`.
    """

    dialects = frozenset(Dialect)

    def __init__(self, recording: Recording, *, lenient: bool = False, redact: Redactor | None = None) -> None:
        self._left = list(recording.exchanges)
        self._count = len(self._left)
        self._lenient = lenient
        self._redact = redact
        self._lock = threading.Lock()
        self.divergences: list[ReplayDiverged] = []

    def send(self, request: ModelRequest) -> ModelResponse:
        """
        Raises:
            ReplayDiverged, ReplayExhausted: there is no recorded response for this request.
            ModelFault: the recorded fault.
        """
        exchange = self._take(request)
        if self._redact is not None:
            exchange = replace(exchange, answer=self._redact.restore(exchange.answer, in_json=True))
        if exchange.streams and request.stream:
            return ModelResponse(events=_events(exchange))
        if exchange.status != OK:
            raise _fault(exchange)
        if exchange.streams != request.stream:
            raise ReplayDiverged(
                f"exchange {exchange.number}: recorded {'with' if exchange.streams else 'without'} streaming", diff=""
            )
        return ModelResponse(_body(exchange), raw=exchange.answer)

    def _take(self, request: ModelRequest) -> Exchange:
        # In the recorded form: before the harness pinned parameters, and without secrets.
        raw = request.raw or dump(request.body).encode("utf-8", "surrogatepass")
        body = read_object(self._redact.data(raw) if self._redact is not None else raw)
        with self._lock:
            if not self._left:
                raise ReplayExhausted(f"the recording has only {self._count} exchanges")
            first = self._left[0]
            # A stopped replay stays stopped, because what follows would not be a replay.
            if self.divergences and not self._lenient:
                raise self.divergences[0]
            for exchange in self._left:
                if exchange.group != first.group:
                    break
                if exchange.dialect is request.dialect and not request_diff(exchange.request, body):
                    self._left.remove(exchange)
                    return exchange
            diff = request_diff(first.request, body)
            diverged = ReplayDiverged(
                f"exchange {first.number} of {self._count} differs from the recorded one:\n"
                f"{diff or f'recorded in the {first.dialect} dialect'}",
                diff=diff,
            )
            self.divergences.append(diverged)
            if not self._lenient:
                raise diverged
            return self._left.pop(0)


def _events(exchange: Exchange) -> Iterator[SseEvent]:
    yield from read_events([exchange.answer])
    if exchange.status not in {OK, ABANDONED}:
        raise _fault(exchange)


def _body(exchange: Exchange) -> JsonObject:
    try:
        return read_object(exchange.answer)
    except ValueError as error:
        raise RecordError(f"cannot read recorded response {exchange.number}: {error}") from None


def _fault(exchange: Exchange) -> ModelFault:
    """Rebuild the recorded fault."""
    classes = [kind for kind in vars(faults).values() if isinstance(kind, type) and issubclass(kind, ServiceFault)]
    kinds: dict[str, type[ServiceFault]] = {kind.label: kind for kind in classes}
    status = re.match(ANSWERED + r" (\d{3})", exchange.error)
    kind = kinds.get(exchange.status, ServiceFault)
    return kind(exchange.error or exchange.status, status=int(status[1]) if status else None)
