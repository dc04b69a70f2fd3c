"""One allowed request carried to its server and back: a plain one read and written again, a tunnel passed on as it is."""

from __future__ import annotations

import http.client
import selectors
import socket
from collections.abc import Sequence
from http import HTTPStatus

from agentbench.contract.network_allow import Destination
from agentbench.run.proxy.recorder import Exchange, ProxyLimits, Recorder, Tape
from agentbench.run.proxy.requests import HOP, PIECE, Client, Head, shown_fields

_BUFFER = 256 << 10
_NO_BODY = frozenset({204, 304})


class Unreachable(Exception):
    """The server could not be reached, or did not answer in HTTP."""


class Passage:
    """Carries requests of one connection."""

    def __init__(self, client: Client, recorder: Recorder, limits: ProxyLimits) -> None:
        self._client = client
        self._recorder = recorder
        self._limits = limits

    def connect(self, there: Destination, addresses: Sequence[str], trouble: str, exchange: Exchange) -> socket.socket:
        """A connection to the first address that takes one: to the address, never again to the name.

        Raises:
            Unreachable: none does.
        """
        last = trouble
        for address in addresses[:4]:
            try:
                server = socket.create_connection((address, there.port), timeout=self._limits.connect_sec)
            except OSError as error:
                last = f"{address}: {error.strerror or error}"
                continue
            exchange.address = address
            server.settimeout(self._limits.idle_sec)
            return server
        raise Unreachable(f"{there} cannot be reached: {last}")

    # --- plain ----------------------------------------------------------------------------------------------------

    def plain(self, server: socket.socket, head: Head, passed_on: bytes, exchange: Exchange) -> None:
        """
        Raises:
            Unreachable: no answer that is one; the client has been told nothing yet.
            Refused: too much passed.
            BadRequest, OSError: the request, or a connection, broke.
        """
        server.sendall(passed_on)
        self._send_body(server, head, exchange)
        answer = http.client.HTTPResponse(server, method=head.method)
        try:
            answer.begin()
        except (http.client.HTTPException, OSError, ValueError) as error:
            raise Unreachable(f"no answer in HTTP: {type(error).__name__}") from error
        with answer:
            exchange.status = answer.status
            fields = tuple((name, " ".join(value.split())) for name, value in answer.getheaders())
            exchange.head = shown_fields(fields)
            self._answer(answer, fields, head, exchange)

    def _send_body(self, server: socket.socket, head: Head, exchange: Exchange) -> None:
        headers = head.headers
        chunked = "transfer-encoding" in headers
        if headers.get("expect", "").lower() == "100-continue":
            self._client.socket.sendall(b"HTTP/1.1 100 Continue\r\n\r\n")
        for piece in self._client.body(head):
            exchange.sent.add(piece)
            self._recorder.passed(sent=len(piece))
            server.sendall(b"%x\r\n%b\r\n" % (len(piece), piece) if chunked else piece)
        if chunked:
            server.sendall(b"0\r\n\r\n")

    def _answer(
        self, answer: http.client.HTTPResponse, fields: Sequence[tuple[str, str]], head: Head, exchange: Exchange
    ) -> None:
        client = self._client.socket
        empty = head.method == "HEAD" or answer.status in _NO_BODY or answer.status < 200
        chunked = not empty and answer.length is None and head.minor == 1
        lines = [f"HTTP/1.1 {answer.status} {_phrase(answer.status)}", "Connection: close"]
        skipped = HOP | ({"content-length"} if answer.length is None and not empty else set())
        lines += [f"{name}: {value}" for name, value in fields if name.lower() not in skipped]
        lines += ["Transfer-Encoding: chunked"] if chunked else []
        client.sendall(("\r\n".join(lines) + "\r\n\r\n").encode("latin-1", "replace"))
        while not empty and (piece := _piece(answer)):
            exchange.received.add(piece)
            self._recorder.passed(received=len(piece))
            client.sendall(b"%x\r\n%b\r\n" % (len(piece), piece) if chunked else piece)
        if not empty and answer.length:
            msg = "the answer ended in its middle"
            raise OSError(msg)
        if chunked:
            client.sendall(b"0\r\n\r\n")

    # --- tunnels --------------------------------------------------------------------------------------------------

    def tunnel(self, server: socket.socket, exchange: Exchange) -> None:
        """Pass bytes on until both sides have ended.

        Raises:
            Refused: too much passed.
            OSError: a connection broke, or nothing came for too long.
        """
        client = self._client.socket
        client.sendall(b"HTTP/1.1 200 Connection established\r\n\r\n")
        out = _Side(client, server, exchange.sent)
        back = _Side(server, client, exchange.received)
        out.take(self._client.rest())
        self._recorder.passed(sent=out.tape.total)
        for one in (client, server):
            one.setblocking(False)
        while not (out.over and back.over):
            with selectors.DefaultSelector() as poll:
                for sock, reads, writes in ((client, out, back), (server, back, out)):
                    wanted = (selectors.EVENT_READ if reads.wants_more else 0) | (
                        selectors.EVENT_WRITE if writes.pending else 0
                    )
                    if wanted:
                        poll.register(sock, wanted, (reads, writes))
                ready = poll.select(self._limits.idle_sec)
            if not ready:
                msg = f"nothing passed for {self._limits.idle_sec:g} s"
                raise OSError(msg)
            for key, events in ready:
                reads, writes = key.data
                if events & selectors.EVENT_WRITE:
                    writes.write()
                if events & selectors.EVENT_READ:
                    count = reads.read()
                    self._recorder.passed(**{"sent" if reads is out else "received": count})


class _Side:
    """One direction of a tunnel. At most _BUFFER bytes wait: a slow reader slows the writer down."""

    def __init__(self, source: socket.socket, sink: socket.socket, tape: Tape) -> None:
        self._source = source
        self._sink = sink
        self.tape = tape
        self.pending = bytearray()
        self._ended = False
        self.over = False

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
        self.tape.add(data)
        self.pending += data

    def write(self) -> None:
        try:
            while self.pending:
                del self.pending[: self._sink.send(self.pending)]
        except BlockingIOError:
            return
        if self._ended and not self.over:
            self.over = True
            self._sink.shutdown(socket.SHUT_WR)


def _piece(answer: http.client.HTTPResponse) -> bytes:
    try:
        return answer.read1(PIECE)
    except http.client.HTTPException as error:
        msg = f"the answer ended in its middle: {type(error).__name__}"
        raise OSError(msg) from None


def _phrase(status: int) -> str:
    try:
        return HTTPStatus(status).phrase
    except ValueError:
        return "Answer"
