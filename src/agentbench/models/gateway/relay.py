"""One request through the gateway: a worker asks the metered_model, the connection's own thread writes to the client.

Two threads, because a client must hear something while its model thinks, and because nobody but the one that waits can notice
that the client has gone.
"""

from __future__ import annotations

import queue
import threading
import time
from dataclasses import dataclass

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
    """When a client that waits hears something: in a stream, and before a whole answer (then a space goes ahead of it)."""

    stream_sec: float = 5.0
    whole_sec: float = 25.0


@dataclass(frozen=True, slots=True)
class _Whole:
    data: bytes


@dataclass(frozen=True, slots=True)
class _Begin:
    pass


@dataclass(frozen=True, slots=True)
class _Event:
    data: bytes


@dataclass(frozen=True, slots=True)
class _End:
    fault: ModelFault | None = None


_News = _Whole | _Begin | _Event | _End


class ClientGone(Exception):
    """Nobody is there to answer to."""


class Relay:
    """Carries one request. `run` says whether the connection can take another."""

    def __init__(
        self,
        upstream: Upstream,
        connection: Connection,
        request: ModelRequest,
        waiting: KeepAliveIntervals,
        *,
        chunked: bool,
    ) -> None:
        self._upstream = upstream
        self._connection = connection
        self._request = request
        self._waiting = waiting
        self._chunked = chunked
        self._news: queue.SimpleQueue[_News] = queue.SimpleQueue()
        self._begun = False
        self._events = 0

    def run(self) -> bool:
        threading.Thread(target=self._ask, name="gateway-ask", daemon=True).start()
        try:
            return self._tell()
        except (OSError, ClientGone):
            self._request.cancel.set()
            return False

    # --- the worker's side --------------------------------------------------------------------------------------------

    def _ask(self) -> None:
        try:
            with self._upstream.send(self._request) as answer:
                if not answer.streams:
                    self._news.put(_Whole(answer.raw))
                    return
                self._news.put(_Begin())
                for event in answer.events:
                    self._news.put(_Event(event.encode()))
                    if self._request.cancel:
                        return
                self._news.put(_End())
        except ModelFault as fault:
            self._news.put(_End(fault))
        except AgentBenchError as error:
            self._news.put(_End(ModelFault(error.message)))
        except Exception as error:  # noqa: BLE001 - a client that waits must be answered, whatever went wrong
            self._news.put(_End(ModelFault(f"the gateway failed: {type(error).__name__}: {error}"[:500])))

    # --- the client's side --------------------------------------------------------------------------------------------

    def _tell(self) -> bool:
        while True:
            news = self._next()
            match news:
                case _Begin():
                    self._begin()
                case _Event():
                    self._piece(news.data)
                case _Whole():
                    return self._whole(news.data)
                case _End():
                    return self._end(news.fault)

    def _next(self) -> _News:
        """What comes next, with signs of life to the client until then."""
        patience = self._waiting.stream_sec if self._request.stream else self._waiting.whole_sec
        due = time.monotonic() + patience
        while True:
            try:
                return self._news.get(timeout=min(TICK_SEC, patience))
            except queue.Empty:
                if self._connection.is_gone():
                    raise ClientGone from None
                if time.monotonic() >= due:
                    self._sign_of_life()
                    due = time.monotonic() + patience

    def _sign_of_life(self) -> None:
        self._begin()
        if not self._request.stream:
            self._connection.piece(b" ", chunked=self._chunked)
        elif self._request.dialect is Dialect.MESSAGES and self._events:
            self._connection.piece(_PING, chunked=self._chunked)
        else:
            self._connection.piece(_COMMENT, chunked=self._chunked)

    def _begin(self) -> None:
        if not self._begun:
            self._begun = True
            kind = "text/event-stream; charset=utf-8" if self._request.stream else "application/json"
            self._connection.begin(kind, chunked=self._chunked)

    def _piece(self, data: bytes) -> None:
        self._events += 1
        self._connection.piece(data, chunked=self._chunked)

    def _whole(self, data: bytes) -> bool:
        if self._begun:
            self._connection.piece(data, chunked=self._chunked)
            self._connection.finish(chunked=self._chunked)
        else:
            self._connection.answer(200, data)
        return self._chunked

    def _end(self, fault: ModelFault | None) -> bool:
        if fault is not None:
            error = api_error(fault, self._request.dialect)
            if not self._begun:
                # What can be tried again was tried again here: clients that knock on do it for nothing.
                headers = {"x-should-retry": "false"}
                if error.retry_after is not None:
                    headers["retry-after"] = str(int(error.retry_after) + 1)
                self._connection.answer(error.status, error.body(self._request.dialect), headers)
                return self._chunked
            # The status is out already: the error itself is all that can still be said, in the form of its API.
            late = (
                error.event(self._request.dialect).encode()
                if self._request.stream
                else error.late(self._request.dialect)
            )
            self._connection.piece(late, chunked=self._chunked)
        self._begin()
        self._connection.finish(chunked=self._chunked)
        return self._chunked
