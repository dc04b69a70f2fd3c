"""Ends connections whose client does not do its part: uvicorn has no time limit for the header or body of a request, or for reading."""

from __future__ import annotations

from collections.abc import Collection

from uvicorn.protocols.http.h11_impl import H11Protocol, RequestResponseCycle

STALLED_SEC = 30.0
CROWDED_SEC = 2.0
"""Limit while at least half of the allowed connections are open."""


def waits_for_client(connection: H11Protocol) -> bool:
    """Return whether only the client can continue: with a request, the rest of one, or by reading the answer."""
    cycle: RequestResponseCycle | None = getattr(connection, "cycle", None)  # None before the first request
    waits = cycle is None or cycle.response_complete or cycle.more_body
    return waits or connection.flow.write_paused


class StalledConnections:
    """Remembers since when each connection waits for its client."""

    def __init__(self, max_connections: int) -> None:
        self._max_connections = max_connections
        self._since: dict[H11Protocol, float] = {}

    def end(self, connections: Collection[object], now: float) -> None:
        """End the connections that have waited too long. Call this about once per second."""
        http = (connection for connection in connections if isinstance(connection, H11Protocol))
        self._since = {
            connection: self._since.get(connection, now) for connection in http if waits_for_client(connection)
        }
        limit = CROWDED_SEC if len(connections) * 2 >= self._max_connections else STALLED_SEC
        for connection, since in self._since.items():
            if now - since > limit:
                connection.transport.abort()
