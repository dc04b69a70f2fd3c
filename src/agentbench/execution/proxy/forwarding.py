"""Forwards one allowed request to its server: plain HTTP is parsed and written again, a tunnel is passed through unchanged."""

from __future__ import annotations

import http.client
import selectors
import socket
from collections.abc import Sequence

from agentbench.contract.network_allow import Destination
from agentbench.core.http1 import CONTINUE, LAST_CHUNK, PIECE, RequestHead, RequestReader, chunk, response_head
from agentbench.execution.proxy.recorder import Capture, Exchange, ProxyLimits, Recorder
from agentbench.execution.proxy.requests import HOP_BY_HOP, recorded_fields

_BUFFER = 256 << 10
_NO_BODY = frozenset({204, 304})


class Unreachable(Exception):
    """The server could not be reached, or did not respond in HTTP."""


class Forwarder:
    """Forwards the request of one connection."""

    def __init__(self, client: RequestReader, recorder: Recorder, limits: ProxyLimits) -> None:
        self._client = client
        self._recorder = recorder
        self._limits = limits

    def connect(
        self, destination: Destination, addresses: Sequence[str], problem: str, exchange: Exchange
    ) -> socket.socket:
        """Connect to the first address that accepts. Uses addresses only, never the name again.

        Raises:
            Unreachable: none accepts; without addresses, because of `problem`.
        """
        last = problem
        for address in addresses[:4]:
            try:
                server = socket.create_connection((address, destination.port), timeout=self._limits.connect_sec)
            except OSError as error:
                last = f"{address}: {error.strerror or error}"
                continue
            exchange.address = address
            server.settimeout(self._limits.idle_sec)
            return server
        raise Unreachable(f"cannot reach {destination}: {last}")

    def plain(self, server: socket.socket, head: RequestHead, forwarded: bytes, exchange: Exchange) -> None:
        """Send a request with the head `forwarded`, and return the response to the client.

        Raises:
            Unreachable: the server sent no HTTP response; nothing was sent to the client yet.
            Refused: a byte limit is reached.
            BadRequest, OSError: the request, or a connection, broke.
        """
        server.sendall(forwarded)
        self._send_body(server, head, exchange)
        response = http.client.HTTPResponse(server, method=head.method)
        try:
            response.begin()
        except (http.client.HTTPException, OSError, ValueError) as error:
            raise Unreachable(f"no HTTP response: {type(error).__name__}") from error
        with response:
            exchange.status = response.status
            fields = tuple((name, " ".join(value.split())) for name, value in response.getheaders())
            exchange.head = recorded_fields(fields)
            self._send_response(response, fields, head, exchange)

    def _send_body(self, server: socket.socket, head: RequestHead, exchange: Exchange) -> None:
        if head.expects_continue:
            self._client.socket.sendall(CONTINUE)
        for piece in self._client.body(head):
            exchange.sent.add(piece)
            self._recorder.count(sent=len(piece))
            server.sendall(chunk(piece) if head.chunked else piece)
        if head.chunked:
            server.sendall(LAST_CHUNK)

    def _send_response(
        self,
        response: http.client.HTTPResponse,
        fields: Sequence[tuple[str, str]],
        head: RequestHead,
        exchange: Exchange,
    ) -> None:
        client = self._client.socket
        empty = head.method == "HEAD" or response.status in _NO_BODY or response.status < 200
        chunked = not empty and response.length is None and head.minor == 1
        dropped = HOP_BY_HOP | ({"content-length"} if response.length is None and not empty else set())
        kept = [(name, value) for name, value in fields if name.lower() not in dropped]
        framing = [("Transfer-Encoding", "chunked")] if chunked else []
        client.sendall(response_head(response.status, [("Connection", "close"), *kept, *framing]))
        while not empty and (piece := _read_piece(response)):
            exchange.received.add(piece)
            self._recorder.count(received=len(piece))
            client.sendall(chunk(piece) if chunked else piece)
        if not empty and response.length:
            raise OSError("the response was cut off")
        if chunked:
            client.sendall(LAST_CHUNK)

    def tunnel(self, server: socket.socket, exchange: Exchange) -> None:
        """Pass bytes through until both sides have ended.

        Raises:
            Refused: a byte limit is reached.
            OSError: a connection broke, or was idle for too long.
        """
        client = self._client.socket
        client.sendall(b"HTTP/1.1 200 Connection established\r\n\r\n")
        out = _Direction(client, server, exchange.sent)
        back = _Direction(server, client, exchange.received)
        out.take(self._client.rest())
        self._recorder.count(sent=out.capture.total)
        for sock in (client, server):
            sock.setblocking(False)
        while not (out.done and back.done):
            with selectors.DefaultSelector() as poll:
                for sock, reads, writes in ((client, out, back), (server, back, out)):
                    wanted = (selectors.EVENT_READ if reads.wants_more else 0) | (
                        selectors.EVENT_WRITE if writes.pending else 0
                    )
                    if wanted:
                        poll.register(sock, wanted, (reads, writes))
                ready = poll.select(self._limits.idle_sec)
            if not ready:
                raise OSError(f"idle for {self._limits.idle_sec:g} s")
            for key, events in ready:
                reads, writes = key.data
                if events & selectors.EVENT_WRITE:
                    writes.write()
                if events & selectors.EVENT_READ:
                    size = reads.read()
                    self._recorder.count(**{"sent" if reads is out else "received": size})


class _Direction:
    """One direction of a tunnel. At most _BUFFER bytes are pending, so a slow reader slows the writer down."""

    def __init__(self, source: socket.socket, sink: socket.socket, capture: Capture) -> None:
        self._source = source
        self._sink = sink
        self.capture = capture
        self.pending = bytearray()
        self._ended = False
        self.done = False

    @property
    def wants_more(self) -> bool:
        return not self._ended and len(self.pending) < _BUFFER

    def read(self) -> int:
        try:
            data = self._source.recv(PIECE)
        except BlockingIOError:
            return 0
        self._ended = not data
        self.take(data)
        self.write()
        return len(data)

    def take(self, data: bytes) -> None:
        self.capture.add(data)
        self.pending += data

    def write(self) -> None:
        try:
            while self.pending:
                del self.pending[: self._sink.send(self.pending)]
        except BlockingIOError:
            return
        if self._ended and not self.done:
            self.done = True
            self._sink.shutdown(socket.SHUT_WR)


def _read_piece(response: http.client.HTTPResponse) -> bytes:
    try:
        return response.read1(PIECE)
    except http.client.HTTPException as error:
        raise OSError(f"the response was cut off: {type(error).__name__}") from None
