"""The gateway server of one attempt, on a unix socket in a folder that the sandbox mounts.

    with Gateway(folder, metered_model) as gateway:
        spec = gateway.forward.add_to(spec, gateway.environment())
        …
        gateway.forward.start(sandbox, wall_sec)

Every client that can reach the socket can spend the attempt's budget.
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

from agentbench.core.http1 import BadRequest
from agentbench.models.client.endpoint import Dialect
from agentbench.models.dialects.errors import ApiError
from agentbench.models.gateway.http import Connection, MemoryBudget, Request
from agentbench.models.gateway.relay import KeepAliveIntervals, Relay
from agentbench.models.gateway.routes import dialect_of, model_entry, model_list, model_request, route, token_count
from agentbench.models.json_values import JsonObject
from agentbench.models.metered_model import MeteredModel
from agentbench.models.upstream import Cancel
from agentbench.sandbox.socket_forward import SocketForward

PORT = 8377
"""The same for all, because every sandbox has its own loopback."""

PLACEHOLDER = "agentbench-placeholder-key"
"""Clients do not start without a key. This one grants nothing."""

MAX_CONNECTIONS = 64


class Gateway:
    """Serves one attempt. `folder` is created, and used by nothing else."""

    def __init__(
        self, folder: Path, metered_model: MeteredModel, *, keep_alive: KeepAliveIntervals | None = None
    ) -> None:
        self.forward = SocketForward(folder, "gateway", PORT)
        self.metered_model = metered_model
        self._keep_alive = keep_alive or KeepAliveIntervals()
        self._lock = threading.Lock()
        self._memory = MemoryBudget()
        self._connections: dict[socket.socket, Cancel | None] = {}
        self._closed = False
        self._listener = self.forward.listen(MAX_CONNECTIONS)
        self._thread = threading.Thread(target=self._accept, name="gateway-accept", daemon=True)
        self._thread.start()

    def environment(self) -> Mapping[str, str]:
        """Return the environment variables by which clients find the gateway. They contain no key."""
        base = f"http://127.0.0.1:{PORT}"
        return {
            "OPENAI_BASE_URL": f"{base}/v1",
            "OPENAI_API_BASE": f"{base}/v1",
            "OPENAI_API_KEY": PLACEHOLDER,
            "ANTHROPIC_BASE_URL": base,
            "ANTHROPIC_API_KEY": PLACEHOLDER,
            "AB_MODEL": self.metered_model.identity.name,
            # A proxy configured in the image must not be used for the loopback.
            "NO_PROXY": "127.0.0.1,localhost",
            "no_proxy": "127.0.0.1,localhost",
        }

    def close(self) -> None:
        """Close every connection and the metered model. Safe to call twice."""
        with self._lock:
            if self._closed:
                return
            self._closed = True
            open_connections = list(self._connections.items())
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for connection, cancel in open_connections:
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
                time.sleep(0.05)  # probably out of file descriptors: others will be released
                continue
            with self._lock:
                full = self._closed or len(self._connections) >= MAX_CONNECTIONS
                if not full:
                    self._connections[client] = None
            if full:
                with contextlib.suppress(OSError):
                    Connection(client).respond(503, ApiError(503, "busy", "too many connections").body(Dialect.CHAT))
                client.close()
                continue
            threading.Thread(target=self._serve, args=(client,), name="gateway-client", daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        connection = Connection(client, self._memory)
        try:
            while (request := connection.read_request()) is not None:
                if not self._handle(connection, request):
                    return
        except BadRequest as bad:
            with contextlib.suppress(OSError):
                connection.respond(bad.status, _error(bad), {"connection": "close"})
        except OSError:
            pass  # the client has gone, or was idle for too long
        finally:
            connection.release()
            with self._lock:
                self._connections.pop(client, None)
            client.close()

    def _handle(self, connection: Connection, request: Request) -> bool:
        """Answer one request. Returns whether the connection stays open."""
        dialect = dialect_of(request)
        try:
            matched = route(request)
            dialect = matched.dialect
            if matched.kind == "completion":
                asked = model_request(request, dialect)
                with self._lock:
                    self._connections[connection.socket] = asked.cancel
                chunked = request.head.minor == 1
                relay = Relay(self.metered_model, connection, asked, self._keep_alive, chunked=chunked)
                return relay.run() and request.head.keep_alive
            name = self.metered_model.identity.name
            if matched.kind == "count":
                connection.respond(200, token_count(request))
            else:
                connection.respond(200, model_list(name) if matched.kind == "models" else model_entry(name))
        except BadRequest as bad:
            connection.respond(bad.status, _error(bad, dialect), {"x-should-retry": "false"})
        return request.head.keep_alive


def _error(bad: BadRequest, dialect: Dialect = Dialect.CHAT) -> JsonObject:
    return ApiError(bad.status, "invalid_request_error", bad.message).body(dialect)
