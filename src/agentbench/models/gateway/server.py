"""The gateway server of one attempt, on a unix socket in a folder that the sandbox mounts.

    with Gateway(folder, metered_model) as gateway:
        spec = gateway.forward.add_to(spec, gateway.environment())
        …
        gateway.forward.start(sandbox, wall_sec)

Every client that can reach the socket can spend the attempt's budget.
"""

from __future__ import annotations

import socket
from collections.abc import Mapping
from pathlib import Path

from agentbench.core.http1 import BadRequest
from agentbench.models.client.endpoint import Dialect
from agentbench.models.dialects.errors import ApiError
from agentbench.models.gateway.http import Connection, MemoryBudget, Request
from agentbench.models.gateway.relay import KeepAliveIntervals, Relay
from agentbench.models.gateway.routes import dialect_of, model_entry, model_list, model_request, route, token_count
from agentbench.models.json_values import JsonObject
from agentbench.models.metered_model import MeteredModel
from agentbench.sandbox.socket_server import SocketServer

PORT = 8377
"""The same for all, because every sandbox has its own loopback."""

PLACEHOLDER = "agentbench-placeholder-key"
"""Clients do not start without a key. This one grants nothing."""

MAX_CONNECTIONS = 64


class Gateway(SocketServer):
    """Serves one attempt."""

    def __init__(
        self, folder: Path, metered_model: MeteredModel, *, keep_alive: KeepAliveIntervals | None = None
    ) -> None:
        self.metered_model = metered_model
        self._keep_alive = keep_alive or KeepAliveIntervals()
        self._memory = MemoryBudget()
        super().__init__(folder, "gateway", PORT, MAX_CONNECTIONS)

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
        """Cancel open requests, and close the metered model and every connection. Safe to call twice."""
        self.metered_model.close()
        super().close()

    def serve(self, client: socket.socket) -> None:
        connection = Connection(client, self._memory)
        try:
            while (request := connection.read_request()) is not None:
                if not self._handle(connection, request):
                    return
        except BadRequest as bad:
            connection.respond(bad.status, _error(bad), {"connection": "close"})
        finally:
            connection.release()

    def reject(self, client: socket.socket) -> None:
        Connection(client).respond(503, ApiError(503, "busy", "too many connections").body(Dialect.CHAT))

    def _handle(self, connection: Connection, request: Request) -> bool:
        """Answer one request. Returns whether the connection stays open."""
        dialect = dialect_of(request)
        try:
            matched = route(request)
            dialect = matched.dialect
            if matched.kind == "completion":
                relay = Relay(self.metered_model, connection, model_request(request, dialect), self._keep_alive)
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
