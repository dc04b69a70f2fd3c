"""HTTP/1.1 as far as an API client needs it: requests read with bounds, answers written whole or in chunks."""

from __future__ import annotations

import io
import json
import select
import socket
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from http import HTTPStatus

from agentbench.models.json_values import JsonObject

MAX_HEAD = 64 << 10
MAX_HEADERS = 200
MAX_BODY = 32 << 20
_LENGTH_DIGITS = 20
MAX_HELD = 256 << 20
_PER_VALUE = 64
_GONE = select.POLLRDHUP | select.POLLHUP | select.POLLERR


class BadRequest(Exception):
    """What came is no request that we take. `status` is what the client is told before the connection ends."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.message = message


@dataclass(frozen=True, slots=True)
class Request:
    """One request. Names of headers are in lower case."""

    method: str
    path: str
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes = b""
    version: str = "HTTP/1.1"

    @property
    def keep_alive(self) -> bool:
        return self.version == "HTTP/1.1" and self.headers.get("connection", "").lower() != "close"


class Room:
    """What all requests of one gateway may take of the host's memory at a time: it is not the sandbox's to use up."""

    def __init__(self, most: int = MAX_HELD) -> None:
        self._most = self._left = most
        self._lock = threading.Lock()

    def take(self, size: int) -> None:
        """
        Raises:
            BadRequest: there is no room for it, now or ever.
        """
        with self._lock:
            if size > self._most:
                raise BadRequest(413, "the request is too large")
            if size > self._left:
                raise BadRequest(503, "too many large requests at once")
            self._left -= size

    def give_back(self, size: int) -> None:
        with self._lock:
            self._left += size


class Connection:
    """A client's connection: requests come out, answers go in. What a request holds of `room` is given back with the next."""

    def __init__(self, sock: socket.socket, room: Room | None = None) -> None:
        self.socket = sock
        self._room = room or Room()
        self._held = 0
        self._reader = io.BufferedReader(_Raw(sock), 16384)

    def read_request(self) -> Request | None:
        """The next request; None when the client is done.

        Raises:
            BadRequest: it is malformed or too large.
            OSError: the connection broke or timed out.
        """
        self.give_back()
        line = self._line(MAX_HEAD)
        if not line:
            return None
        parts = line.decode("latin-1").split()
        if len(parts) != 3 or parts[2] not in {"HTTP/1.1", "HTTP/1.0"} or not parts[1].startswith("/"):
            raise BadRequest(400, "not an HTTP/1.1 request")
        method, target, version = parts
        headers = self._headers()
        if headers.get("expect", "").lower() == "100-continue":
            self.socket.sendall(b"HTTP/1.1 100 Continue\r\n\r\n")
        body = self._body(headers)
        # Read as JSON, an empty object takes twenty times the room of its two braces.
        if len(body) > MAX_HEAD:
            self._hold(_PER_VALUE * (len(body) - len(body.translate(None, b"{[,"))))
        return Request(method, target.split("?")[0], headers, body, version)

    def give_back(self) -> None:
        """The last request is done with."""
        self._room.give_back(self._held)
        self._held = 0

    def _hold(self, size: int) -> None:
        self._room.take(size)
        self._held += size

    def _headers(self) -> dict[str, str]:
        headers: dict[str, str] = {}
        left, lines = MAX_HEAD, 0
        while (line := self._line(left)) not in {b"\r\n", b"\n"}:
            left, lines = left - len(line), lines + 1
            if left <= 0 or lines > MAX_HEADERS:
                raise BadRequest(431, "too many headers")
            name, colon, value = line.decode("latin-1").partition(":")
            if not line.endswith(b"\n") or not colon or name != name.strip():
                raise BadRequest(400, "bad header")
            name = name.lower()
            # Two lengths are how requests are smuggled.
            if name in headers and name in {"content-length", "transfer-encoding"}:
                raise BadRequest(400, f"{name} is given twice")
            headers[name] = value.strip()
        return headers

    def _line(self, most: int) -> bytes:
        return self._reader.readline(max(most, 0) + 1)

    def _body(self, headers: Mapping[str, str]) -> bytes:
        if "transfer-encoding" in headers:
            if headers["transfer-encoding"].lower() != "chunked" or "content-length" in headers:
                raise BadRequest(400, "expected a content-length or chunks")
            return self._chunks()
        text = headers.get("content-length", "0")
        if not (text.isascii() and text.isdecimal()):
            raise BadRequest(400, "content-length is no number")
        # Python refuses to read thousands of digits as a number.
        size = int(text) if len(text) <= _LENGTH_DIGITS else MAX_BODY + 1
        if size > MAX_BODY:
            raise BadRequest(413, f"the request is larger than {MAX_BODY} bytes")
        return self._exactly(size)

    def _chunks(self) -> bytes:
        body = bytearray()
        while True:
            head = self._line(100).split(b";")[0].strip()
            try:
                size = int(head, 16) if head.isalnum() else -1
            except ValueError:
                size = -1
            if size < 0:
                raise BadRequest(400, "bad chunk")
            if len(body) + size > MAX_BODY:
                raise BadRequest(413, f"the request is larger than {MAX_BODY} bytes")
            body += self._exactly(size)
            if size == 0:
                self._headers()  # trailers, or the empty line that ends it
                return bytes(body)
            if self._line(2) not in {b"\r\n", b"\n"}:
                raise BadRequest(400, "bad chunk")

    def _exactly(self, size: int) -> bytes:
        self._hold(size)
        data = self._reader.read(size)
        if len(data) != size:
            raise BadRequest(400, "the request ends in the middle")
        return data

    # --- writing --------------------------------------------------------------------------------------------------

    def answer(self, status: int, body: JsonObject | bytes, headers: Mapping[str, str] | None = None) -> None:
        """A whole answer."""
        data = body if isinstance(body, bytes) else json.dumps(body, ensure_ascii=False).encode("utf-8", "replace")
        fields = {"content-type": "application/json", **(headers or {}), "content-length": str(len(data))}
        self.socket.sendall(_head(status, fields) + data)

    def begin(self, content_type: str, *, chunked: bool) -> None:
        """The head of an answer whose length is not known."""
        fields = {"content-type": content_type, "cache-control": "no-cache"}
        fields |= {"transfer-encoding": "chunked"} if chunked else {"connection": "close"}
        self.socket.sendall(_head(200, fields))

    def piece(self, data: bytes, *, chunked: bool) -> None:
        if data:
            self.socket.sendall(b"%x\r\n%b\r\n" % (len(data), data) if chunked else data)

    def finish(self, *, chunked: bool) -> None:
        if chunked:
            self.socket.sendall(b"0\r\n\r\n")

    def is_gone(self) -> bool:
        """Whether the client has closed its side. Never waits."""
        try:
            # Not recv: with a timeout set on the socket, Python would wait that long before it looks.
            poll = select.poll()
            poll.register(self.socket, _GONE)
            return bool(poll.poll(0))
        except (OSError, ValueError):
            return True


class _Raw(io.RawIOBase):
    """A socket for a BufferedReader. (`makefile` would keep the socket open until it is closed, too.)"""

    def __init__(self, sock: socket.socket) -> None:
        self._socket = sock

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: bytearray | memoryview) -> int:  # type: ignore[override]
        return self._socket.recv_into(buffer)


def _head(status: int, headers: Mapping[str, str]) -> bytes:
    try:
        phrase = HTTPStatus(status).phrase
    except ValueError:
        phrase = "Error"
    lines = [f"HTTP/1.1 {status} {phrase}", *(f"{name}: {value}" for name, value in headers.items())]
    return ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1", "replace")
