"""The proxy server of one attempt, on a unix socket that is forwarded to the loopback of the sandbox.

    with Proxy(folder, AllowList.of(…), Recorder(log, blobs, limits), limits) as proxy:
        spec = proxy.forward.add_to(spec, environment())
        …
        proxy.forward.start(sandbox, wall_sec)

Every client that can reach the socket can use the allowed destinations.
"""

from __future__ import annotations

import contextlib
import socket
import time
from collections.abc import Mapping
from pathlib import Path

from agentbench.contract.network_allow import Destination
from agentbench.core.dataclass import dataclass
from agentbench.core.errors import HarnessError
from agentbench.core.http1 import BadRequest, RequestHead, RequestReader, response_head
from agentbench.execution.proxy.allow_list import AllowList, Refused
from agentbench.execution.proxy.forwarding import Forwarder, Unreachable
from agentbench.execution.proxy.recorder import Exchange, ProxyLimits, Recorder
from agentbench.execution.proxy.requests import destination_of, forwarded_head, is_tunnel
from agentbench.sandbox.socket_server import SocketServer

PORT = 8378
"""The same for all, because every sandbox has its own loopback."""

_OVER = "the agent phase was over"
_STATUS = {"malformed": 400, "not_listed": 403, "not_public": 403, "limit": 429}


@dataclass(slots=True)
class _Target:
    """Where a request goes, as far as it is known. `problem` says why a name cannot be resolved."""

    destination: Destination | None = None
    path: str = ""
    addresses: tuple[str, ...] = ()
    problem: str = ""


class Proxy(SocketServer):
    """Serves one attempt."""

    def __init__(self, folder: Path, allow: AllowList, recorder: Recorder, limits: ProxyLimits | None = None) -> None:
        self._allow = allow
        self._recorder = recorder
        self._limits = limits or ProxyLimits()
        super().__init__(folder, "proxy", PORT, self._limits.connections)

    def close(self) -> None:
        """Close every connection and record the totals. Safe to call twice."""
        super().close()
        self._recorder.close()

    def serve(self, client: socket.socket) -> None:
        # Without a record nothing may be sent, so the connection ends.
        with contextlib.suppress(HarnessError):
            self._handle(RequestReader(client, self._limits.idle_sec))

    def reject(self, client: socket.socket) -> None:
        self._recorder.count_rejected_connection()

    def _handle(self, client: RequestReader) -> None:
        """Handle the only request of a connection: every response says that the connection closes."""
        try:
            head = client.read_head(self._limits.head_sec)
        except TimeoutError as error:
            self._refuse_malformed(client, BadRequest(408, str(error)))
            return
        except BadRequest as bad:
            self._refuse_malformed(client, bad)
            return
        if head is None:
            return
        target = _Target()
        refused: Refused | None = None
        try:
            target.destination, target.path = destination_of(head)
            self._allow.check(target.destination)
            # A DNS query leaves the host too, so there must be none that the limits would keep out of the record.
            self._recorder.admit()
            target.addresses = self._allow.addresses(target.destination)
        except BadRequest as bad:
            refused = Refused("malformed", bad.message)
        except Refused as error:
            refused = error
        except (OSError, UnicodeError) as error:
            target.problem = str(getattr(error, "strerror", None) or error)
        try:
            exchange = self._recorder.request(head, target.destination, refused)
        except Refused as error:
            _respond(client, _STATUS[error.kind], error.message)
            return
        try:
            self._forward(client, head, target, exchange)
        finally:
            self._recorder.response(exchange)

    def _refuse_malformed(self, client: RequestReader, bad: BadRequest) -> None:
        """Record and refuse what is not a request."""
        with contextlib.suppress(Refused):
            self._recorder.request(RequestHead("?", "", 1, ()), None, Refused("malformed", bad.message))
        _respond(client, bad.status, bad.message)

    def _forward(self, client: RequestReader, head: RequestHead, target: _Target, exchange: Exchange) -> None:
        forwarder = Forwarder(client, self._recorder, self._limits)
        destination = target.destination
        assert destination is not None  # noqa: S101 - a request without a destination was refused
        server: socket.socket | None = None
        try:
            server = forwarder.connect(destination, target.addresses, target.problem, exchange)
            if not self.register(server):
                exchange.error = _OVER
                return
            if is_tunnel(head):
                forwarder.tunnel(server, exchange)
            else:
                forwarder.plain(server, head, forwarded_head(head, destination, target.path), exchange)
        except Unreachable as error:
            exchange.error = str(error)
            _respond(client, 502, str(error))
        except (Refused, BadRequest) as error:
            exchange.error = error.message
        except OSError as error:
            exchange.error = _OVER if self.closed else str(error.strerror or error)
        finally:
            if server is not None:
                server.close()


def environment() -> Mapping[str, str]:
    """Return the environment variables by which clients find the proxy."""
    proxy = f"http://127.0.0.1:{PORT}"
    names = ("http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "all_proxy")
    loopback = "127.0.0.1,localhost,::1"
    return {**dict.fromkeys(names, proxy), "NO_PROXY": loopback, "no_proxy": loopback}


def _respond(client: RequestReader, status: int, message: str) -> None:
    body = f"agentbench proxy: {message}\n".encode()
    fields = [("Content-Type", "text/plain"), ("Content-Length", str(len(body))), ("Connection", "close")]
    with contextlib.suppress(OSError):
        client.socket.settimeout(5)
        client.socket.sendall(response_head(status, fields) + body)
        # What the client still sends must be read, or the kernel drops the response.
        client.socket.shutdown(socket.SHUT_WR)
        _drain(client.socket)


def _drain(sock: socket.socket) -> None:
    deadline = time.monotonic() + 2
    left = 1 << 20
    while left > 0 and time.monotonic() < deadline:
        sock.settimeout(max(deadline - time.monotonic(), 0.01))
        data = sock.recv(65536)
        if not data:
            return
        left -= len(data)
