"""A strict reader of HTTP/1.1 requests from a socket, and the bytes of simple responses.

Serves the gateway and the recording proxy, whose clients are hostile. Every request that two readers could understand
differently is refused: bare line feeds, folded headers, repeated or combined lengths, chunks in HTTP/1.0. (h11 accepts these.)
"""

from __future__ import annotations

import re
import socket
import time
from collections.abc import Iterable, Iterator, Mapping
from functools import cached_property
from http import HTTPStatus

from agentbench.core.dataclass import dataclass

MAX_HEAD = 32 << 10
MAX_HEADERS = 100
PIECE = 64 << 10
"""Bytes of a body that are read at a time."""
CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"
LAST_CHUNK = b"0\r\n\r\n"
ONCE = frozenset({"host", "content-length", "transfer-encoding"})
"""Headers that may occur only once."""

_LINE = re.compile(rb"([A-Z][A-Z-]{0,19}) ([!-~]{1,8000}) HTTP/1\.([01])\Z")
_FIELD = re.compile(rb"([!#$%&'*+.^_`|~0-9A-Za-z-]{1,200}):([^\x00\r\n]*)\Z")
"""Does not match the blanks around the value: a pattern that does needs quadratic time for a value of blanks."""
_CHUNK = re.compile(rb"([0-9a-fA-F]{1,8})(?:;[ -~]*)?\Z")
_MAX_LENGTH_DIGITS = 15


class BadRequest(Exception):
    """The request is refused. `status` is the status for the client."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.message = message


@dataclass(frozen=True)
class RequestHead:
    """Request line and header fields. `minor` is the minor version: 0 or 1."""

    method: str
    target: str
    minor: int
    fields: tuple[tuple[str, str], ...]

    @cached_property
    def headers(self) -> Mapping[str, str]:
        """The fields by name in lower case."""
        return {name.lower(): value for name, value in self.fields}

    @property
    def chunked(self) -> bool:
        return "transfer-encoding" in self.headers

    @property
    def content_length(self) -> int:
        return int(self.headers.get("content-length", "0"))

    @property
    def keep_alive(self) -> bool:
        return self.minor == 1 and self.headers.get("connection", "").lower() != "close"

    @property
    def expects_continue(self) -> bool:
        return self.headers.get("expect", "").lower() == "100-continue"


class RequestReader:
    """Reads the requests of one connection. `idle_sec` is how long a body may pause."""

    def __init__(self, sock: socket.socket, idle_sec: float) -> None:
        self.socket = sock
        self._idle_sec = idle_sec
        self._buffer = bytearray()

    def read_head(self, seconds: float) -> RequestHead | None:
        """Read the head of the next request, all of it within `seconds`. Returns None if the client has closed.

        Raises:
            BadRequest: it is malformed, too large or too slow.
            OSError: the connection broke. A TimeoutError if the client sent nothing.
        """
        deadline = time.monotonic() + seconds
        while (end := self._buffer.find(b"\r\n\r\n", 0, MAX_HEAD + 4)) < 0:
            if len(self._buffer) > MAX_HEAD:
                status = 431 if b"\r\n" in self._buffer else 400
                raise BadRequest(status, f"the request head is larger than {MAX_HEAD} bytes")
            left = deadline - time.monotonic()
            if left <= 0:
                if not self._buffer:
                    raise TimeoutError(f"no request within {seconds:g} s")
                raise BadRequest(408, f"the request head took longer than {seconds:g} s")
            self.socket.settimeout(left)
            try:
                data = self.socket.recv(PIECE)
            except TimeoutError:
                continue
            if not data:
                if self._buffer:
                    raise BadRequest(400, "the connection ended inside the request head")
                return None
            self._buffer += data
        raw = bytes(self._buffer[:end])
        del self._buffer[: end + 4]
        self.socket.settimeout(self._idle_sec)
        return parse_head(raw)

    def body(self, head: RequestHead) -> Iterator[bytes]:
        """Yield the body that follows a head, without its framing.

        Raises:
            BadRequest: the framing is broken.
            OSError: the connection broke, or paused too long.
        """
        if not head.chunked:
            yield from self._exactly(head.content_length)
            return
        while True:
            chunk = _CHUNK.match(self._line())
            if chunk is None:
                raise BadRequest(400, "malformed chunk")
            size = int(chunk[1], 16)
            if size == 0:
                break
            yield from self._exactly(size)
            if self._line():
                raise BadRequest(400, "malformed chunk")
        for _ in range(MAX_HEADERS):
            if not self._line():  # trailers are dropped
                return
        raise BadRequest(431, "too many trailers")

    def rest(self) -> bytes:
        """Take the bytes received after the head; after CONNECT they belong to the tunnel."""
        data = bytes(self._buffer)
        self._buffer.clear()
        return data

    def _line(self) -> bytes:
        while (end := self._buffer.find(b"\r\n")) < 0:
            if len(self._buffer) > MAX_HEAD:
                raise BadRequest(400, "malformed chunk")
            self._receive()
        line = bytes(self._buffer[:end])
        del self._buffer[: end + 2]
        return line

    def _exactly(self, size: int) -> Iterator[bytes]:
        while size:
            if not self._buffer:
                self._receive()
            piece = bytes(self._buffer[: min(size, PIECE)])
            del self._buffer[: len(piece)]
            size -= len(piece)
            yield piece

    def _receive(self) -> None:
        data = self.socket.recv(PIECE)
        if not data:
            raise BadRequest(400, "the connection ended inside the request body")
        self._buffer += data


def parse_head(raw: bytes) -> RequestHead:
    """
    Raises:
        BadRequest: it is malformed or ambiguous.
    """
    first, *rest = raw.split(b"\r\n")
    line = _LINE.match(first)
    if line is None:
        raise BadRequest(400, "not an HTTP/1.1 request")
    if len(rest) > MAX_HEADERS:
        raise BadRequest(431, f"more than {MAX_HEADERS} headers")
    fields: list[tuple[str, str]] = []
    names: set[str] = set()
    for text in rest:
        field = _FIELD.match(text)
        if field is None:
            raise BadRequest(400, "malformed header")
        name = field[1].decode("ascii")
        if name.lower() in ONCE & names:
            raise BadRequest(400, f"duplicate {name.lower()} header")
        names.add(name.lower())
        fields.append((name, field[2].strip(b" \t").decode("latin-1")))
    head = RequestHead(line[1].decode("ascii"), line[2].decode("ascii"), int(line[3]), tuple(fields))
    headers = head.headers
    if head.chunked and (
        headers["transfer-encoding"].lower() != "chunked" or "content-length" in headers or head.minor == 0
    ):
        raise BadRequest(400, "expected either content-length or transfer-encoding: chunked")
    length = headers.get("content-length", "0")
    if re.fullmatch(r"[0-9]+", length, re.ASCII) is None:
        raise BadRequest(400, "content-length is not a number")
    if len(length) > _MAX_LENGTH_DIGITS:
        raise BadRequest(413, "the request body is too large")
    return head


def response_head(status: int, fields: Iterable[tuple[str, str]]) -> bytes:
    try:
        phrase = HTTPStatus(status).phrase
    except ValueError:
        phrase = "Unknown"
    lines = [f"HTTP/1.1 {status} {phrase}", *(f"{name}: {value}" for name, value in fields)]
    return ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1", "replace")


def chunk(data: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(data), data)
