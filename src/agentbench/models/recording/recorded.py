"""Exchanges as a trace holds them, and a source that answers from them: `--model recorded:RUN`."""

from __future__ import annotations

import base64
import re
import threading
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from agentbench.core.errors import ModelFault, RecordError
from agentbench.models import faults
from agentbench.models.client.endpoint import Dialect
from agentbench.models.client.response_errors import ANSWERED
from agentbench.models.faults import ReplayDiverged, ReplayExhausted, ServiceFault
from agentbench.models.json_values import JsonObject, dump, read_object
from agentbench.models.metered_model import ABANDONED, OK
from agentbench.models.recording.request_diff import difference
from agentbench.models.sse import SseEvent, read_events
from agentbench.models.upstream import ModelRequest, ModelResponse
from agentbench.trace.blobs import BlobStore
from agentbench.trace.events import Excerpt, LlmRequest, LlmResponse, Payload
from agentbench.trace.log import read_events as read_log
from agentbench.trace.redaction import Redactor

BUDGET = "budget"


@dataclass(frozen=True, slots=True)
class Exchange:
    """One recorded exchange. `group`: those that were in flight together; their order may differ in another run."""

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
    """What an attempt asked and was answered, in order."""

    provider: str
    model: str
    exchanges: tuple[Exchange, ...]


@dataclass(slots=True)
class _Reading:
    store: BlobStore
    groups: int = 0
    open: dict[str, tuple[LlmRequest, int]] = field(default_factory=dict)
    found: list[tuple[int, Exchange]] = field(default_factory=list)

    def whole(self, excerpt: Excerpt) -> bytes:
        if excerpt.blob is not None:
            return self.store.get(excerpt.blob)
        if excerpt.truncated:
            raise RecordError("an exchange was not kept whole: it cannot be replayed")
        return base64.b64decode(excerpt.text) if excerpt.encoding == "base64" else excerpt.text.encode()


def read_recording(log: Path, blobs: BlobStore) -> Recording:
    """The exchanges of an attempt, from its log and its blobs.

    Raises:
        RecordError: they cannot be read, or were not kept whole.
    """
    return recording_of(
        (event.payload for event in read_log(log, types={LlmRequest.type, LlmResponse.type})), log, blobs
    )


def recording_of(payloads: Iterable[Payload], log: Path, blobs: BlobStore) -> Recording:
    """The exchanges that these requests and responses, in their order, are; `log` is where they stand.

    Raises:
        RecordError: they cannot be read, or were not kept whole.
    """
    reading = _Reading(blobs)
    provider, model = "recorded", ""
    for payload in payloads:
        if isinstance(payload, LlmRequest):
            if not reading.open:
                reading.groups += 1
            reading.open[payload.request_id] = (payload, reading.groups)
            provider, model = payload.provider, payload.model
        elif isinstance(payload, LlmResponse) and payload.request_id in reading.open:
            _close(reading, payload, log)
    reading.found.sort(key=lambda one: one[0])
    return Recording(provider, model, tuple(exchange for _, exchange in reading.found))


def _close(reading: _Reading, payload: LlmResponse, log: Path) -> None:
    request, group = reading.open.pop(payload.request_id)
    # What was refused by that run's budget was never answered; this run has a budget of its own.
    if payload.status == BUDGET:
        return
    try:
        body = read_object(reading.whole(request.messages))
        dialect = Dialect(str(request.parameters.get("dialect")))
    except ValueError as error:
        raise RecordError(f"{log}: the request {request.request_id} cannot be read: {error}") from None
    exchange = Exchange(
        number=request.conversation_index // 2 + 1,
        group=group,
        dialect=dialect,
        request=body,
        answer=reading.whole(payload.content),
        streams=request.parameters.get("stream") is True,
        status=payload.status,
        error=payload.error,
    )
    reading.found.append((request.conversation_index, exchange))


class RecordedUpstream:
    """An `Upstream` that answers as was recorded. Requests are matched by sequence; the first that differs ends it.

    `lenient` goes on with the next recorded answer whatever is asked; `divergences` says how often that happened.
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
            ReplayDiverged, ReplayExhausted; or the fault that was recorded.
        """
        exchange = self._take(request)
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
        # As it was written down: before the harness pinned anything, and without secrets.
        raw = request.raw or dump(request.body).encode("utf-8", "surrogatepass")
        asked = read_object(self._redact.data(raw) if self._redact is not None else raw)
        with self._lock:
            if not self._left:
                raise ReplayExhausted(f"the recording ends after {self._count} exchanges, and more is asked")
            first = self._left[0]
            # A replay that has stopped stays stopped: what would follow is no re-run of anything.
            if self.divergences and not self._lenient:
                raise self.divergences[0]
            for exchange in self._left:
                if exchange.group != first.group:
                    break
                if exchange.dialect is request.dialect and not difference(exchange.request, asked):
                    self._left.remove(exchange)
                    return exchange
            diverged = ReplayDiverged(
                f"exchange {first.number} of {self._count} is not the recorded one:\n"
                f"{(diff := difference(first.request, asked)) or f'recorded in the {first.dialect} dialect'}",
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
        raise RecordError(f"the recorded answer {exchange.number} cannot be read: {error}") from None


def _fault(exchange: Exchange) -> ModelFault:
    """The fault that was recorded, as it was."""
    found = [kind for kind in vars(faults).values() if isinstance(kind, type) and issubclass(kind, ServiceFault)]
    kinds: dict[str, type[ServiceFault]] = {kind.label: kind for kind in found}
    status = re.match(ANSWERED + r" (\d{3})", exchange.error)
    kind = kinds.get(exchange.status, ServiceFault)
    return kind(exchange.error or exchange.status, status=int(status[1]) if status else None)
