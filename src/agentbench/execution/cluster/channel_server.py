"""The driver's end of the channel: an HTTPS server that accepts only nodes whose certificates it knows.

    POST /heartbeat                    a node lives; phases of its attempts
    GET  /content/<sha256>             content that an attempt needs
    POST /attempts/<id>/<operation>    evidence, model requests, budgets and questions of one attempt

A node reaches only the attempts that were placed on it.
"""

from __future__ import annotations

import contextlib
import socket
import ssl
import threading
from collections.abc import Iterable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Protocol

from agentbench.core.errors import AgentBenchError
from agentbench.execution.cluster.channel_keys import ChannelKey, driver_context, fingerprint, fingerprint_of_pem
from agentbench.execution.cluster.content import ContentStore
from agentbench.execution.cluster.wire import JsonDict, decode, encode

MAX_JSON = 64 << 20
_HANDSHAKE_SEC = 30.0
_DRAINED = 1 << 20


class BadMessage(Exception):
    """A node sent something that is not part of the protocol."""


class Exchange:
    """One request of a node and its response."""

    def __init__(self, handler: _Handler) -> None:
        self._handler = handler
        self.left = int(handler.headers.get("Content-Length") or 0)
        """Bytes of the body that were not read yet."""
        if self.left < 0:
            raise ValueError("a body of negative length")

    def header(self, name: str) -> str:
        return self._handler.headers.get(name) or ""

    def read(self, size: int) -> bytes:
        """Read exactly `size` bytes of the body."""
        if size > self.left:
            raise BadMessage("the body is shorter than announced")
        data = self._handler.rfile.read(size)
        if len(data) != size:
            raise ConnectionError("the node disconnected")
        self.left -= size
        return data

    def read_line(self) -> bytes:
        line = self._handler.rfile.readline(min(self.left, 1 << 16))
        if not line:
            raise ConnectionError("the node disconnected")
        self.left -= len(line)
        return line

    def abort(self) -> None:
        """End the connection: a thread that reads from it gets an error."""
        _shut_down(self._handler.connection)

    def body(self) -> bytes:
        if self.left > MAX_JSON:
            raise BadMessage(f"the message is larger than {MAX_JSON} bytes")
        return self.read(self.left)

    def json(self) -> JsonDict:
        try:
            return decode(self.body())
        except (ValueError, TypeError) as error:
            raise BadMessage(f"not a JSON object: {error}") from None

    def reply(self, value: JsonDict, status: int = 200) -> None:
        self.reply_bytes(encode(value), status)

    def reply_bytes(self, data: bytes, status: int = 200) -> None:
        self._handler.send_response(status)
        self._handler.send_header("Content-Length", str(len(data)))
        self._handler.end_headers()
        self._handler.wfile.write(data)

    def reply_lines(self, values: Iterable[JsonDict]) -> None:
        """Send JSON lines as they become available."""
        self._handler.send_response(200)
        self._handler.send_header("Transfer-Encoding", "chunked")
        self._handler.end_headers()
        for value in values:
            line = encode(value) + b"\n"
            self._handler.wfile.write(b"%x\r\n%s\r\n" % (len(line), line))
            self._handler.wfile.flush()
        self._handler.wfile.write(b"0\r\n\r\n")

    def reply_content(self, store: ContentStore, sha256: str) -> None:
        size = store.size(sha256)
        if size is None:
            self.reply({"error": "unknown content"}, 404)
            return
        self._handler.send_response(200)
        self._handler.send_header("Content-Length", str(size))
        self._handler.end_headers()
        store.read(sha256, self._send)

    def _send(self, chunk: bytes) -> None:
        self._handler.wfile.write(chunk)


class AttemptChannel(Protocol):
    """The driver's side of one attempt."""

    node: str
    """Fingerprint of the node that makes the attempt."""

    def handle(self, operation: str, exchange: Exchange) -> None: ...


class NodeListener(Protocol):
    """Is told about heartbeats."""

    def heartbeat(self, node: str, value: JsonDict) -> JsonDict:
        """
        Raises:
            BadMessage: the node does not belong to the run any more.
        """
        ...


class ChannelServer:
    """Serves all nodes of one run, a thread per connection."""

    def __init__(self, host: str, key: ChannelKey, store: ContentStore, listener: NodeListener) -> None:
        """
        Raises:
            OSError: the address cannot be used.
        """
        self.certificate = key.certificate
        self.store = store
        self.listener = listener
        self._context = driver_context(key)
        self._lock = threading.Lock()
        self._nodes: set[str] = set()
        self._attempts: dict[str, AttemptChannel] = {}
        self._connections: dict[str, set[socket.socket]] = {}
        self._received = 0
        self._server = _Server((host, 0), self, self._context)
        self.url = f"https://{f'[{host}]' if ':' in host else host}:{self._server.server_address[1]}"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.2,), name="channel", daemon=True)
        self._thread.start()

    def trust(self, certificate: str) -> str:
        """Accept a node by its certificate, and return its fingerprint."""
        node = fingerprint_of_pem(certificate)
        with self._lock:
            self._context.load_verify_locations(cadata=certificate)
            self._nodes.add(node)
        return node

    def forget(self, node: str) -> None:
        """Reject everything that a node sends from now on, and what it is sending."""
        with self._lock:
            self._nodes.discard(node)
            self._attempts = {name: attempt for name, attempt in self._attempts.items() if attempt.node != node}
            connections = list(self._connections.get(node, ()))
        for connection in connections:
            _shut_down(connection)

    @property
    def received_bytes(self) -> int:
        """Bytes that nodes have sent."""
        return self._received

    @contextlib.contextmanager
    def connected(self, node: str, connection: socket.socket) -> Iterator[None]:
        """Remember a node's connection while it is open."""
        with self._lock:
            self._connections.setdefault(node, set()).add(connection)
        try:
            yield
        finally:
            with self._lock:
                self._connections[node].discard(connection)
                if not self._connections[node]:
                    del self._connections[node]

    def count(self, size: int) -> None:
        with self._lock:
            self._received += size

    def open_attempt(self, attempt_id: str, channel: AttemptChannel) -> None:
        with self._lock:
            self._attempts[attempt_id] = channel

    def close_attempt(self, attempt_id: str) -> None:
        with self._lock:
            self._attempts.pop(attempt_id, None)

    def close(self) -> None:
        """Answer no node any more, also not on connections that are open: a node lives as long as it is answered."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()
        with self._lock:
            nodes = [*self._nodes, *self._connections]
        for node in nodes:
            self.forget(node)

    def is_known(self, node: str) -> bool:
        with self._lock:
            return node in self._nodes

    def attempt(self, attempt_id: str, node: str) -> AttemptChannel | None:
        with self._lock:
            channel = self._attempts.get(attempt_id)
        return channel if channel is not None and channel.node == node else None


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False
    request_queue_size = 1024

    def __init__(self, address: tuple[str, int], channel: ChannelServer, context: ssl.SSLContext) -> None:
        self.channel = channel
        self._context = context
        super().__init__(address, _Handler)

    def get_request(self) -> tuple[socket.socket, object]:
        connection, address = super().get_request()
        connection.settimeout(_HANDSHAKE_SEC)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        # The handshake happens on the connection's own thread, so that a silent client delays no other connection.
        return self._context.wrap_socket(connection, server_side=True, do_handshake_on_connect=False), address

    def handle_error(self, request: object, client_address: object) -> None:
        """Ignore broken connections: the node tries again, or is lost."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: _Server
    wbufsize = -1

    def setup(self) -> None:
        self.request.do_handshake()
        self.request.settimeout(None)
        certificate = self.request.getpeercert(binary_form=True)
        self._node = fingerprint(certificate) if certificate else ""
        super().setup()

    def handle(self) -> None:
        with self.server.channel.connected(self._node, self.connection):
            super().handle()

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the name of the base class
        """Log nothing: standard error belongs to the progress of the run."""

    def do_GET(self) -> None:
        self._handle()

    def do_POST(self) -> None:
        self._handle()

    def _handle(self) -> None:
        try:
            exchange = Exchange(self)
        except ValueError:
            self.close_connection = True
            return
        self.server.channel.count(exchange.left)
        try:
            self._dispatch(exchange)
        except (BadMessage, KeyError, ValueError, TypeError) as error:
            self._refuse(exchange, 400, f"{type(error).__name__}: {error}")
        except AgentBenchError as error:
            self._refuse(exchange, 500, error.message)
        if exchange.left:
            self.close_connection = True
        with contextlib.suppress(OSError):
            self.wfile.flush()

    def _dispatch(self, exchange: Exchange) -> None:
        channel = self.server.channel
        if not channel.is_known(self._node):
            self._refuse(exchange, 410, "this node does not belong to the run any more")
            return
        match self.path.strip("/").split("/"):
            case ["heartbeat"]:
                exchange.reply(channel.listener.heartbeat(self._node, exchange.json()))
            case ["content", sha256]:
                exchange.reply_content(channel.store, sha256)
            case ["attempts", attempt_id, operation]:
                attempt = channel.attempt(attempt_id, self._node)
                if attempt is None:
                    self._refuse(exchange, 410, "this attempt is not made by this node any more")
                else:
                    attempt.handle(operation, exchange)
            case _:
                raise BadMessage(f"unknown request {self.path}")

    def _refuse(self, exchange: Exchange, status: int, why: str) -> None:
        # A connection that is closed with an unread body is reset, and the node may never see the response.
        if exchange.left <= _DRAINED:
            exchange.read(exchange.left)
        exchange.reply({"error": why}, status)


def _shut_down(connection: socket.socket) -> None:
    """Shut a connection down under a thread that uses it, without the closing messages of TLS."""
    with contextlib.suppress(OSError):
        socket.socket.shutdown(connection, socket.SHUT_RDWR)
