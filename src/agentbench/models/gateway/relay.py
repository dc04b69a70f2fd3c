"""Relays one request through the gateway: a worker asks the model, the connection's own thread writes to the client.

Two threads, so that the client gets keep-alives while the model thinks, and so that a client that has gone is noticed.
"""

from __future__ import annotations

import queue
import threading
import time
from typing import Literal

from agentbench.core.dataclass import dataclass
from agentbench.core.errors import AgentBenchError, ModelFault
from agentbench.models.client.endpoint import Dialect
from agentbench.models.dialects.errors import api_error
from agentbench.models.gateway.http import Connection
from agentbench.models.upstream import ModelRequest, Upstream

TICK_SEC = 0.5
_COMMENT = b": waiting\n\n"
_PING = b'event: ping\ndata: {"type": "ping"}\n\n'


@dataclass(frozen=True, slots=True)
class KeepAliveIntervals:
    """Intervals at which a waiting client gets a keep-alive: a comment or ping in a stream, a leading space before a whole response."""

    stream_sec: float = 5.0
    whole_sec: float = 25.0


@dataclass(frozen=True, slots=True)
class _Progress:
    """A result of the worker: the stream begins, one event of it, a whole response, or the end."""

    kind: Literal["begin", "event", "whole", "end"]
    data: bytes = b""
    fault: ModelFault | None = None


class ClientGone(Exception):
    """The client has closed the connection."""


class Relay:
    """Relays one request. `run` returns whether the client is still there."""

    def __init__(
        self,
        upstream: Upstream,
        connection: Connection,
        request: ModelRequest,
        keep_alive: KeepAliveIntervals,
    ) -> None:
        self._upstream = upstream
        self._connection = connection
        self._request = request
        self._keep_alive = keep_alive
        self._progress: queue.SimpleQueue[_Progress] = queue.SimpleQueue()
        self._begun = False
        self._events = 0

    def run(self) -> bool:
        threading.Thread(target=self._ask, name="gateway-ask", daemon=True).start()
        try:
            self._write()
            return True
        except (OSError, ClientGone):
            self._request.cancel.set()
            return False

    # --- worker thread ------------------------------------------------------------------------------------------------

    def _ask(self) -> None:
        try:
            with self._upstream.send(self._request) as response:
                if not response.streams:
                    self._progress.put(_Progress("whole", response.raw))
                    return
                self._progress.put(_Progress("begin"))
                for event in response.events:
                    self._progress.put(_Progress("event", event.encode()))
                    if self._request.cancel:
                        return
                self._progress.put(_Progress("end"))
        except ModelFault as fault:
            self._progress.put(_Progress("end", fault=fault))
        except AgentBenchError as error:
            self._progress.put(_Progress("end", fault=ModelFault(error.message)))
        except Exception as error:  # noqa: BLE001 - a waiting client must get a response, whatever went wrong
            failure = ModelFault(f"the gateway failed: {type(error).__name__}: {error}"[:500])
            self._progress.put(_Progress("end", fault=failure))

    # --- connection thread --------------------------------------------------------------------------------------------

    def _write(self) -> None:
        while True:
            progress = self._next()
            if progress.kind == "whole":
                self._whole(progress.data)
                return
            if progress.kind == "end":
                self._end(progress.fault)
                return
            self._begin()
            if progress.kind == "event":
                self._events += 1
                self._connection.piece(progress.data)

    def _next(self) -> _Progress:
        """Wait for the worker's next result, and send keep-alives to the client until then."""
        interval = self._keep_alive.stream_sec if self._request.stream else self._keep_alive.whole_sec
        due = time.monotonic() + interval
        while True:
            try:
                return self._progress.get(timeout=min(TICK_SEC, interval))
            except queue.Empty:
                if self._connection.is_gone():
                    raise ClientGone from None
                if time.monotonic() >= due:
                    self._send_keep_alive()
                    due = time.monotonic() + interval

    def _send_keep_alive(self) -> None:
        self._begin()
        if not self._request.stream:
            self._connection.piece(b" ")
        elif self._request.dialect is Dialect.MESSAGES and self._events:
            self._connection.piece(_PING)
        else:
            self._connection.piece(_COMMENT)

    def _begin(self) -> None:
        if not self._begun:
            self._begun = True
            kind = "text/event-stream; charset=utf-8" if self._request.stream else "application/json"
            self._connection.begin(kind)

    def _whole(self, data: bytes) -> None:
        if self._begun:
            self._connection.piece(data)
            self._connection.finish()
        else:
            self._connection.respond(200, data)

    def _end(self, fault: ModelFault | None) -> None:
        if fault is not None:
            error = api_error(fault, self._request.dialect)
            if not self._begun:
                # The harness has already retried what can be retried, so clients must not.
                headers = {"x-should-retry": "false"}
                if error.retry_after is not None:
                    headers["retry-after"] = str(int(error.retry_after) + 1)
                self._connection.respond(error.status, error.body(self._request.dialect), headers)
                return
            # The status line is already sent, so the error goes into the body, in the form of the API.
            late = (
                error.event(self._request.dialect).encode()
                if self._request.stream
                else error.late(self._request.dialect)
            )
            self._connection.piece(late)
        self._begin()
        self._connection.finish()
