"""The server of one attempt: a unix socket in a folder that the sandbox mounts.

    with Gateway(folder, metered_model) as gateway:
        spec = gateway.forward.add_to(spec, gateway.environment())
        …
        gateway.forward.start(sandbox, wall_sec)

Whoever can reach the socket can spend the attempt's budget.
"""

from __future__ import annotations

import contextlib
import socket
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Self

from agentbench.models.client.endpoint import Dialect
from agentbench.models.dialects.errors import ApiError
from agentbench.models.gateway.http import BadRequest, Connection, Request, Room
from agentbench.models.gateway.relay import KeepAliveIntervals, Relay
from agentbench.models.gateway.routes import call_of, dialect_of, model_entry, model_list, route, token_count
from agentbench.models.json_values import JsonObject
from agentbench.models.metered_model import MeteredModel
from agentbench.models.upstream import Cancel
from agentbench.sandbox.socket_forward import SocketForward

PORT = 8377
"""Every sandbox has a loopback of its own, so that one number serves all."""

PLACEHOLDER = "agentbench-placeholder-key"
"""Clients do not start without a key. This one opens nothing."""

MAX_CONNECTIONS = 64
IDLE_SEC = 300.0


class Gateway:
    """See the module. `folder` is made, and nobody else's."""

    def __init__(self, folder: Path, metered_model: MeteredModel, *, waiting: KeepAliveIntervals | None = None) -> None:
        self.forward = SocketForward(folder, "gateway", PORT)
        self.metered_model = metered_model
        self._waiting = waiting or KeepAliveIntervals()
        self._lock = threading.Lock()
        self._room = Room()
        self._connections: dict[socket.socket, Cancel | None] = {}
        self._closed = False
        self._listener = self.forward.listen(MAX_CONNECTIONS)
        self._thread = threading.Thread(target=self._accept, name="gateway-accept", daemon=True)
        self._thread.start()

    # --- what a sandbox needs -----------------------------------------------------------------------------------------

    def environment(self) -> Mapping[str, str]:
        """What clients find their way by. No key is in it."""
        base = f"http://127.0.0.1:{PORT}"
        return {
            "OPENAI_BASE_URL": f"{base}/v1",
            "OPENAI_API_BASE": f"{base}/v1",
            "OPENAI_API_KEY": PLACEHOLDER,
            "ANTHROPIC_BASE_URL": base,
            "ANTHROPIC_API_KEY": PLACEHOLDER,
            "AB_MODEL": self.metered_model.identity.name,
            # A proxy setting of the image must not come between a client and its own loopback.
            "NO_PROXY": "127.0.0.1,localhost",
            "no_proxy": "127.0.0.1,localhost",
        }

    # --- life ---------------------------------------------------------------------------------------------------------

    def close(self) -> None:
        """End every connection, and the metered_model with them. Safe to call twice."""
        with self._lock:
            if self._closed:
                return
            self._closed = True
            left = list(self._connections.items())
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for connection, cancel in left:
            if cancel is not None:
                cancel.set()
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
        self.metered_model.close()
        self._thread.join(timeout=2)
        self.forward.remove()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self.close()

    # --- serving ------------------------------------------------------------------------------------------------------

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                if self._closed:
                    return
                time.sleep(0.05)  # out of descriptors, say: others give theirs back
                continue
            client.settimeout(IDLE_SEC)
            with self._lock:
                full = self._closed or len(self._connections) >= MAX_CONNECTIONS
                if not full:
                    self._connections[client] = None
            if full:
                with contextlib.suppress(OSError):
                    Connection(client).answer(503, ApiError(503, "busy", "too many connections").body(Dialect.CHAT))
                client.close()
                continue
            threading.Thread(target=self._serve, args=(client,), name="gateway-client", daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        connection = Connection(client, self._room)
        try:
            while (request := connection.read_request()) is not None:
                if not self._handle(connection, request):
                    return
        except BadRequest as bad:
            with contextlib.suppress(OSError):
                connection.answer(bad.status, _error(bad), {"connection": "close"})
        except OSError:
            pass  # It went away, or said nothing for too long.
        finally:
            connection.give_back()
            with self._lock:
                self._connections.pop(client, None)
            client.close()

    def _handle(self, connection: Connection, request: Request) -> bool:
        """Answer one request; whether the connection goes on."""
        dialect = dialect_of(request)
        try:
            way = route(request)
            dialect = way.dialect
            if way.kind == "call":
                call = call_of(request, dialect)
                with self._lock:
                    self._connections[connection.socket] = call.cancel
                chunked = request.version == "HTTP/1.1"
                on = Relay(self.metered_model, connection, call, self._waiting, chunked=chunked).run()
                return on and request.keep_alive
            name = self.metered_model.identity.name
            if way.kind == "count":
                connection.answer(200, token_count(request))
            else:
                connection.answer(200, model_list(name) if way.kind == "models" else model_entry(name))
        except BadRequest as bad:
            connection.answer(bad.status, _error(bad, dialect), {"x-should-retry": "false"})
        return request.keep_alive


def _error(bad: BadRequest, dialect: Dialect = Dialect.CHAT) -> JsonObject:
    return ApiError(bad.status, "invalid_request_error", bad.message).body(dialect)
