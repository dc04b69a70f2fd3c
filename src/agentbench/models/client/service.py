"""A model service over HTTP: retries, deadline, bounds, and every foreign error mapped to one of ours.

This is the only module that imports httpx. One `Transport` serves the whole process: connections are shared by all workers,
and its TLS context is read once.
"""

from __future__ import annotations

import contextlib
import email.utils
import json
import random
import socket
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import httpx

from agentbench.models.client.cancellation import break_off, breakable, trace
from agentbench.models.client.endpoint import Dialect, Endpoint
from agentbench.models.client.response_errors import check_body, fault_of
from agentbench.models.faults import BadResponse, NotJson, ServiceFault, TimedOut, TooLarge, Truncated, Unreachable
from agentbench.models.json_values import read_object
from agentbench.models.sse import DONE, LAST_EVENTS, SseEvent, read_events
from agentbench.models.upstream import ModelRequest, ModelResponse

MAX_ANSWER = 32 << 20
MAX_ERROR = 64 << 10
MAX_CONNECTIONS = 2000


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """Back-off that doubles, with jitter, under a total deadline. `deadline_sec` counts from the first try."""

    tries: int = 6
    first_sec: float = 0.5
    most_sec: float = 30.0
    deadline_sec: float = 600.0

    def delay(self, tried: int, asked: float | None, left: float, *, draw: float | None = None) -> float | None:
        """Seconds until the next try after `tried` tries; None: give up.

        `asked` is what the service asked to wait for: never less than that, and not at all when it lies beyond the deadline.
        `draw` in [0, 1) replaces chance.
        """
        if tried >= self.tries:
            return None
        ceiling = min(self.first_sec * 2 ** (tried - 1), self.most_sec)
        # Between half and all of the ceiling: spread, but never at once.
        wait = ceiling * (0.5 + 0.5 * (random.random() if draw is None else draw))  # noqa: S311 - jitter
        wait = max(wait, asked or 0.0)
        return wait if wait < left else None


def retry_after(value: str | None, *, now: float | None = None) -> float | None:
    """Seconds of a Retry-After header: a number, or a date. None when there is none or it makes no sense."""
    if not value:
        return None
    try:
        seconds = float(value)
    except ValueError:
        try:
            moment = email.utils.parsedate_to_datetime(value)
        except ValueError:
            return None
        seconds = moment.timestamp() - (time.time() if now is None else now)
    return max(seconds, 0.0) if seconds == seconds and seconds < 1e9 else None  # noqa: PLR0124 - NaN


@dataclass(frozen=True, slots=True)
class Timeouts:
    """How long to wait for what. `silence_sec`: between two pieces of an answer, and before the first."""

    connect_sec: float = 15.0
    silence_sec: float = 300.0


class Transport:
    """Connections to services. Close it at the end."""

    def __init__(self) -> None:
        self._client = httpx.Client(
            timeout=None,  # noqa: S113 - every request has its own
            follow_redirects=False,  # a key must not follow
            limits=httpx.Limits(max_connections=MAX_CONNECTIONS, max_keepalive_connections=200, keepalive_expiry=30),
            headers={"user-agent": "agentbench", "accept-encoding": "identity"},
            # A proxy of the environment is not asked for what is on this machine.
            mounts={f"all://{host}": None for host in ("127.0.0.1", "localhost", "[::1]")},
        )

    def open(
        self, endpoint: Endpoint, call: ModelRequest, content: bytes, silence_sec: float, connect_sec: float
    ) -> httpx.Response:
        """Send, and return when the head of the answer is there."""
        headers = {"content-type": "application/json", **endpoint.headers, **call.headers}
        request = self._client.build_request(
            "POST",
            endpoint.url(call.dialect),
            content=content,
            params=dict(endpoint.query) or None,
            headers={**headers, **endpoint.credentials(call.dialect)},
            timeout=httpx.Timeout(silence_sec, connect=connect_sec),
            extensions={"trace": trace},
        )
        with breakable(call.cancel):
            return self._client.send(request, stream=True)

    def close(self) -> None:
        self._client.close()


class ServiceUpstream:
    """An `Upstream` at an endpoint."""

    def __init__(
        self,
        endpoint: Endpoint,
        transport: Transport,
        *,
        retry: RetryPolicy | None = None,
        patience: Timeouts | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._endpoint = endpoint
        self._transport = transport
        self._retry = retry or RetryPolicy()
        self._patience = patience or Timeouts()
        self._clock = clock

    @property
    def dialects(self) -> frozenset[Dialect]:
        return self._endpoint.dialects

    def send(self, call: ModelRequest) -> ModelResponse:
        deadline = self._clock() + self._retry.deadline_sec
        content = json.dumps(call.body, separators=(",", ":"), ensure_ascii=False).encode("utf-8", "surrogatepass")
        tried = 0
        while True:
            tried += 1
            try:
                return self._once(call, content, deadline)
            except ServiceFault as fault:
                fault = self._without_key(fault)
                left = deadline - self._clock()
                delay = self._retry.delay(tried, fault.retry_after, left) if fault.retryable else None
                if delay is None or call.cancel.wait(delay):
                    raise _after(fault, tried) from None

    def _once(self, call: ModelRequest, content: bytes, deadline: float) -> ModelResponse:
        left = deadline - self._clock()
        if left <= 0:
            raise TimedOut(f"no answer within {self._retry.deadline_sec:g} s")
        silence = min(self._patience.silence_sec, left)
        with _mapped():
            response = self._transport.open(
                self._endpoint, call, content, silence, min(self._patience.connect_sec, left)
            )
        call.cancel.on_cancel(lambda: _abort(response))
        streams = False
        try:
            if response.status_code != 200:
                wait = retry_after(response.headers.get("retry-after"))
                raise fault_of(response.status_code, _error_text(response), wait)
            kind = response.headers.get("content-type", "").split(";")[0].strip().lower()
            late = lambda: self._clock() > deadline  # noqa: E731
            if kind == "text/event-stream" and call.stream:
                streams = True
                stream = _Stream(call, response, late)
                return ModelResponse(events=stream.events(), close=stream.close)
            if kind not in {"application/json", "text/json", ""}:
                raise NotJson(f"the service answered with {kind[:80]!r}: expected application/json")
            return self._whole(call, response, late)
        finally:
            if not streams:
                response.close()

    def _whole(self, call: ModelRequest, response: httpx.Response, late: Callable[[], bool]) -> ModelResponse:
        raw = _read(response, MAX_ANSWER, late)
        try:
            body = read_object(raw)
        except ValueError as error:
            if not raw.rstrip().endswith(b"}"):
                raise Truncated(f"the answer ends in the middle ({len(raw)} bytes): {error}") from None
            raise NotJson(f"the answer is no JSON object: {error}") from None
        check_body(call.dialect, body)
        return ModelResponse(body, raw=raw)

    def _without_key(self, fault: ServiceFault) -> ServiceFault:
        """Some services repeat the key in their errors."""
        key = self._endpoint.key
        if key is not None and key.reveal() in fault.message:
            fault.message = fault.message.replace(key.reveal(), "[redacted]")
            fault.args = (fault.message,)
        return fault


class _Stream:
    """A streaming answer."""

    def __init__(self, call: ModelRequest, response: httpx.Response, late: Callable[[], bool]) -> None:
        self._call = call
        self._response = response
        self._chunks = _chunks(response, late)
        self._complete = False

    def events(self) -> Iterator[SseEvent]:
        """Ends well only after its last event: a stream that just stops was cut."""
        for event in read_events(self._chunks):
            if event.data == DONE:
                self._complete = True
                yield event
                return
            # Read here although it goes on as text: what is no JSON is the service's fault, and must not end as the client's.
            value = event.object()
            if '"error"' in event.data:
                error = value.get("error")
                if error:
                    code = error.get("code") if isinstance(error, dict) else None
                    raise fault_of(code if isinstance(code, int) and code >= 400 else 502, event.data.encode())
            self._complete = self._complete or _is_last(self._call.dialect, event)
            yield event
        if not self._complete:
            raise Truncated("the stream ended before its last event")

    def close(self) -> None:
        """What is behind the last event is read, so that the connection can be used again."""
        with contextlib.suppress(ServiceFault):
            if self._complete and not self._call.cancel:
                for _ in self._chunks:
                    pass
        self._response.close()


def _is_last(dialect: Dialect, event: SseEvent) -> bool:
    if dialect is Dialect.CHAT:
        # Some servers send no [DONE]; a finish reason is as good.
        return '"finish_reason":"' in event.data.replace(" ", "")
    return event.event in LAST_EVENTS


def _chunks(response: httpx.Response, late: Callable[[], bool]) -> Iterator[bytes]:
    total = 0
    with _mapped():
        for chunk in response.iter_bytes():
            total += len(chunk)
            if total > MAX_ANSWER:
                raise TooLarge(f"the answer is larger than {MAX_ANSWER} bytes")
            if late():
                raise TimedOut("the answer was not complete within the deadline")
            yield chunk


def _read(response: httpx.Response, most: int, late: Callable[[], bool], *, cut: bool = False) -> bytes:
    length = response.headers.get("content-length", "")
    if not cut and length.isdecimal() and int(length) > most:
        raise TooLarge(f"the answer has {length} bytes: more than {most}")
    held = bytearray()
    for chunk in _chunks(response, late):
        held += chunk
        if len(held) > most:
            if cut:
                return bytes(held[:most])
            raise TooLarge(f"the answer is larger than {most} bytes")
    return bytes(held)


def _error_text(response: httpx.Response) -> bytes:
    """The beginning of what an error says; the status counts, whatever becomes of its words."""
    try:
        return _read(response, MAX_ERROR, lambda: False, cut=True)
    except ServiceFault:
        return b""


class _mapped:  # noqa: N801 - reads as a phrase: with _mapped():
    """Every error of httpx becomes one of ours; the type says whether another try makes sense."""

    def __enter__(self) -> None: ...

    def __exit__(self, kind: object, error: BaseException | None, tb: object) -> None:
        if isinstance(error, httpx.HTTPError | httpx.StreamError | httpx.InvalidURL | OSError | UnicodeError):
            raise mapped(error) from None


def mapped(error: Exception) -> ServiceFault:
    """What an error of the HTTP library means. Its text is its own and holds no header."""
    what = f"{type(error).__name__}: {error}".rstrip(": ")[:300]
    if isinstance(error, httpx.TimeoutException):
        return TimedOut(f"the service was silent too long ({type(error).__name__})")
    if isinstance(error, httpx.RemoteProtocolError | httpx.ReadError):
        return Truncated(f"the connection broke: {what}")
    if isinstance(error, httpx.DecodingError):
        return BadResponse(f"the answer cannot be decoded: {what}")
    return Unreachable(f"the service cannot be reached: {what}")


def _abort(response: httpx.Response) -> None:
    """Break a connection that another thread is reading from. One that was given back may serve somebody else by now."""
    if response.is_closed:
        return
    stream = response.extensions.get("network_stream")
    held = stream.get_extra_info("socket") if stream is not None else None
    if isinstance(held, socket.socket):
        break_off(held)


def _after(fault: ServiceFault, tried: int) -> ServiceFault:
    if tried > 1:
        fault.message = f"{fault.message} (after {tried} tries)"
        fault.args = (fault.message,)
    return fault
