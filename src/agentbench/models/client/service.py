"""The upstream that sends requests to a service over HTTP, with retries, a deadline and size limits.

Every error of the HTTP library is mapped to a fault. This is the only module that imports httpx. One `Transport` serves the
whole process: all workers share its connections, and its TLS context is loaded once.
"""

from __future__ import annotations

import contextlib
import email.utils
import random
import socket
import time
from collections.abc import Callable, Iterator
from dataclasses import replace

import httpx

from agentbench.core.dataclass import dataclass
from agentbench.models.client.cancellation import break_connection, cancellable, trace
from agentbench.models.client.endpoint import Dialect, Endpoint
from agentbench.models.client.outages import Outages
from agentbench.models.client.response_errors import check_body, fault_of
from agentbench.models.faults import (
    BadResponse,
    NotJson,
    RateLimited,
    ServiceFault,
    TimedOut,
    TooLarge,
    Truncated,
    Unreachable,
)
from agentbench.models.json_values import JsonObject, dump, read_object
from agentbench.models.sse import DONE, LAST_EVENTS, SseEvent, read_events
from agentbench.models.upstream import Cancel, ModelRequest, ModelResponse

MAX_RESPONSE = 32 << 20
MAX_ERROR = 64 << 10
MAX_CONNECTIONS = 2000
PROBE_SEC = 30.0
"""Deadline of a request that only checks whether the service answers."""
ALIVE_SEC = 5.0
"""Deadline of a request without a model, which a service answers also while it loads one."""


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """Exponential backoff with jitter, under a total deadline. `deadline_sec` counts from the first try."""

    tries: int = 6
    first_sec: float = 0.5
    max_sec: float = 30.0
    deadline_sec: float = 600.0

    def delay(self, tried: int, requested: float | None, left: float, *, draw: float | None = None) -> float | None:
        """Return the seconds until the next try after `tried` tries, or None to give up.

        `requested` is the service's Retry-After: never wait less, and give up if it lies beyond the deadline. `draw` in [0, 1)
        replaces the random number.
        """
        if tried >= self.tries:
            return None
        ceiling = min(self.first_sec * 2 ** min(tried - 1, 30), self.max_sec)
        # Between half of the ceiling and all of it: spread, but never immediate.
        wait = ceiling * (0.5 + 0.5 * (random.random() if draw is None else draw))  # noqa: S311 - jitter
        wait = max(wait, requested or 0.0)
        return wait if wait < left else None


def retry_after(value: str | None, *, now: float | None = None) -> float | None:
    """Parse a Retry-After header, a number or a date, to seconds. None if it is missing or invalid."""
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
    """Timeouts of a request. `silence_sec` is the longest pause before and between the pieces of a response."""

    connect_sec: float = 15.0
    silence_sec: float = 300.0


class Transport:
    """A pool of connections to services. Close it at the end."""

    def __init__(self) -> None:
        self._client = httpx.Client(
            timeout=None,  # noqa: S113 - each request sets its own
            follow_redirects=False,  # a redirect must not get the key
            limits=httpx.Limits(max_connections=MAX_CONNECTIONS, max_keepalive_connections=200, keepalive_expiry=30),
            headers={"user-agent": "agentbench", "accept-encoding": "identity"},
            # No proxy from the environment for services on this machine.
            mounts={f"all://{host}": None for host in ("127.0.0.1", "localhost", "[::1]")},
        )

    def open(
        self, endpoint: Endpoint, request: ModelRequest, content: bytes, silence_sec: float, connect_sec: float
    ) -> httpx.Response:
        """Send a request, and return when the head of the response has arrived."""
        headers = {"content-type": "application/json", **endpoint.headers, **request.headers}
        http_request = self._client.build_request(
            "POST",
            endpoint.url(request.dialect),
            content=content,
            params=dict(endpoint.query) or None,
            headers={**headers, **endpoint.credentials(request.dialect)},
            timeout=httpx.Timeout(silence_sec, connect=connect_sec),
            extensions={"trace": trace},
        )
        with cancellable(request.cancel):
            return self._client.send(http_request, stream=True)

    def is_alive(self, endpoint: Endpoint) -> bool:
        """Return whether anything answers at the endpoint, if only with an error. The key is not sent."""
        try:
            self._client.get(f"{endpoint.base_url.rstrip('/')}/models", timeout=ALIVE_SEC)
        except (httpx.HTTPError, httpx.InvalidURL, OSError):
            return False
        return True

    def close(self) -> None:
        self._client.close()


class ServiceUpstream:
    """An `Upstream` that sends requests to an endpoint.

    With `outages`, requests wait for an unavailable service longer than the retry policy says, but only once per outage. A service
    that fails only for one request is not unavailable: that is found out with a request of one token (`answers`).
    """

    def __init__(
        self,
        endpoint: Endpoint,
        transport: Transport,
        *,
        retry: RetryPolicy | None = None,
        timeouts: Timeouts | None = None,
        outages: Outages | None = None,
        model: str = "",
    ) -> None:
        self._endpoint = endpoint
        self._outages = outages
        self._model = model
        self._transport = transport
        self._retry = retry or RetryPolicy()
        self._timeouts = timeouts or Timeouts()

    @property
    def dialects(self) -> frozenset[Dialect]:
        return self._endpoint.dialects

    def send(self, request: ModelRequest) -> ModelResponse:
        first = time.monotonic()
        content = dump(request.body).encode("utf-8", "surrogatepass")
        tried = 0
        while True:
            tried += 1
            began = time.monotonic()
            try:
                deadline = (first if self._outages is None else began) + self._retry.deadline_sec
                response = self._try(request, content, deadline)
            except ServiceFault as fault:
                fault = self._without_key(fault)
                delay = self._delay(fault, tried, first, request)
                if delay is None:
                    raise _with_tries(fault, tried) from None
                if fault.means_outage:
                    request.on_outage(began, time.monotonic() + delay)
                if request.cancel.wait(delay):
                    raise _with_tries(fault, tried) from None
            else:
                if self._outages is not None:
                    self._outages.answered(self._endpoint.title)
                return response

    def answers(self, *, cancel: Cancel | None = None) -> bool:
        """Return whether the service answers a request of one token."""
        try:
            self.ask_one_token(cancel=cancel)
        except ServiceFault as fault:
            return not fault.means_outage
        return True

    def is_alive(self) -> bool:
        """Return whether the service answers a request that needs no model."""
        return self._transport.is_alive(self._endpoint)

    def ask_one_token(self, *, cancel: Cancel | None = None, limit_sec: float = PROBE_SEC) -> None:
        """Send the smallest request, once.

        Raises:
            ServiceFault: no usable response.
        """
        message: JsonObject = {"role": "user", "content": "ping"}
        body: JsonObject = {"model": self._model, "messages": [message], "max_tokens": 1}
        request = ModelRequest(Dialect.CHAT, body, cancel=cancel or Cancel())
        try:
            self._try(request, dump(body).encode(), time.monotonic() + limit_sec).close()
        except ServiceFault as fault:
            raise self._without_key(fault) from None

    def _delay(self, fault: ServiceFault, tried: int, first: float, request: ModelRequest) -> float | None:
        """Return the seconds until the next try, or None to give up. `first` is the time of the first try."""
        if self._outages is None or not fault.means_outage:
            left = self._retry.deadline_sec - (time.monotonic() - first)
            return self._retry.delay(tried, fault.retry_after, left) if fault.retryable else None
        if tried == self._retry.tries and self._is_request_at_fault(fault, request):
            return None
        left = self._outages.failed(self._endpoint.title, fault, tried, first_try=first)
        persistent = replace(self._retry, tries=tried + 1)
        delay = persistent.delay(tried, fault.retry_after, left)
        if delay is None:
            fault.outage = not request.cancel and not self._is_request_at_fault(fault, request)
        return delay

    def _is_request_at_fault(self, fault: ServiceFault, request: ModelRequest) -> bool:
        """Return whether the service fails for this request only: an agent must not leave the rates by provoking errors."""
        if isinstance(fault, Unreachable | RateLimited) or not self.answers(cancel=request.cancel):
            return False
        if self._outages is not None:
            self._outages.answered(self._endpoint.title)
        return True

    def _try(self, request: ModelRequest, content: bytes, deadline: float) -> ModelResponse:
        left = deadline - time.monotonic()
        if left <= 0:
            raise TimedOut(f"no response within {self._retry.deadline_sec:g} s")
        silence = min(self._timeouts.silence_sec, left)
        with _mapped_errors():
            response = self._transport.open(
                self._endpoint, request, content, silence, min(self._timeouts.connect_sec, left)
            )
        request.cancel.on_cancel(lambda: _abort(response))
        streams = False
        try:
            if response.status_code != 200:
                wait = retry_after(response.headers.get("retry-after"))
                raise fault_of(response.status_code, _error_text(response), wait)
            kind = response.headers.get("content-type", "").split(";")[0].strip().lower()
            late = lambda: time.monotonic() > deadline  # noqa: E731
            if kind == "text/event-stream" and request.stream:
                streams = True
                stream = _Stream(request, response, late)
                return ModelResponse(events=stream.events(), close=stream.close)
            if kind not in {"application/json", "text/json", ""}:
                raise NotJson(f"unexpected content type {kind[:80]!r}: expected application/json")
            return self._whole(request, response, late)
        finally:
            if not streams:
                response.close()

    def _whole(self, request: ModelRequest, response: httpx.Response, late: Callable[[], bool]) -> ModelResponse:
        length = response.headers.get("content-length", "")
        if length.isdecimal() and int(length) > MAX_RESPONSE:
            raise TooLarge(f"the response is larger than {MAX_RESPONSE} bytes")
        raw = b"".join(_chunks(response, late))
        try:
            body = read_object(raw)
        except ValueError as error:
            if not raw.rstrip().endswith(b"}"):
                raise Truncated(f"the response was cut off after {len(raw)} bytes: {error}") from None
            raise NotJson(f"the response is not a JSON object: {error}") from None
        check_body(request.dialect, body)
        return ModelResponse(body, raw=raw)

    def _without_key(self, fault: ServiceFault) -> ServiceFault:
        """Remove the key from the message: some services repeat it in their errors."""
        key = self._endpoint.key
        if key is not None and key.reveal() in fault.message:
            fault.message = fault.message.replace(key.reveal(), "[redacted]")
            fault.args = (fault.message,)
        return fault


class _Stream:
    """A streaming response."""

    def __init__(self, request: ModelRequest, response: httpx.Response, late: Callable[[], bool]) -> None:
        self._request = request
        self._response = response
        self._chunks = _chunks(response, late)
        self._complete = False

    def events(self) -> Iterator[SseEvent]:
        """Yield the events. A stream that stops before its last event was cut off.

        Raises:
            ServiceFault: the stream is invalid, cut off, or contains an error.
        """
        for event in read_events(self._chunks):
            if event.data == DONE:
                self._complete = True
                yield event
                return
            # Parsed here although it is passed on as text: invalid JSON is the service's fault, not the client's.
            value = event.object()
            if '"error"' in event.data:
                error = value.get("error")
                if error:
                    code = error.get("code") if isinstance(error, dict) else None
                    raise fault_of(code if isinstance(code, int) and code >= 400 else 502, event.data.encode())
            self._complete = self._complete or _is_last(self._request.dialect, event)
            yield event
        if not self._complete:
            raise Truncated("the stream ended before its last event")

    def close(self) -> None:
        """Close the response, after reading its rest if complete, so that the connection can be reused."""
        with contextlib.suppress(ServiceFault):
            if self._complete and not self._request.cancel:
                for _ in self._chunks:
                    pass
        self._response.close()


def _is_last(dialect: Dialect, event: SseEvent) -> bool:
    if dialect is Dialect.CHAT:
        # Some servers send no [DONE]; a finish reason is equivalent.
        return '"finish_reason":"' in event.data.replace(" ", "")
    return event.event in LAST_EVENTS


def _chunks(response: httpx.Response, late: Callable[[], bool]) -> Iterator[bytes]:
    total = 0
    with _mapped_errors():
        for chunk in response.iter_bytes():
            total += len(chunk)
            if total > MAX_RESPONSE:
                raise TooLarge(f"the response is larger than {MAX_RESPONSE} bytes")
            if late():
                raise TimedOut("the response was not complete within the deadline")
            yield chunk


def _error_text(response: httpx.Response) -> bytes:
    """Return the beginning of an error's body, as far as it can be read."""
    content = bytearray()
    with contextlib.suppress(ServiceFault):
        for chunk in _chunks(response, lambda: False):
            content += chunk
            if len(content) >= MAX_ERROR:
                break
    return bytes(content[:MAX_ERROR])


class _mapped_errors:  # noqa: N801 - used as `with _mapped_errors():`
    """Raises a fault for every error of httpx; its type says whether a retry makes sense."""

    def __enter__(self) -> None: ...

    def __exit__(self, kind: object, error: BaseException | None, tb: object) -> None:
        if isinstance(error, httpx.HTTPError | httpx.StreamError | httpx.InvalidURL | OSError | UnicodeError):
            raise map_error(error) from None


def map_error(error: Exception) -> ServiceFault:
    """Return the fault for an error of the HTTP library, whose text contains no headers."""
    text = f"{type(error).__name__}: {error}".rstrip(": ")[:300]
    if isinstance(error, httpx.TimeoutException):
        return TimedOut(f"the service did not respond in time ({type(error).__name__})")
    if isinstance(error, httpx.RemoteProtocolError | httpx.ReadError):
        return Truncated(f"the connection broke: {text}")
    if isinstance(error, httpx.DecodingError):
        return BadResponse(f"cannot decode the response: {text}")
    return Unreachable(f"cannot reach the service: {text}")


def _abort(response: httpx.Response) -> None:
    """Break a connection that another thread is reading from, unless it was returned to the pool."""
    if response.is_closed:
        return
    stream = response.extensions.get("network_stream")
    sock = stream.get_extra_info("socket") if stream is not None else None
    if isinstance(sock, socket.socket):
        break_connection(sock)


def _with_tries(fault: ServiceFault, tried: int) -> ServiceFault:
    if tried > 1:
        fault.message = f"{fault.message} (after {tried} tries)"
        fault.args = (fault.message,)
    return fault
