"""What a client asks of a proxy, read strictly: a request that two readers could take for two different ones is refused."""

from __future__ import annotations

import re
import socket
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from agentbench.contract.network_allow import Destination, parse_authority

MAX_HEAD = 32 << 10
MAX_HEADERS = 100
PIECE = 64 << 10

_LINE = re.compile(rb"([A-Z][A-Z-]{0,19}) ([!-~]{1,8000}) HTTP/1\.([01])\Z")
_FIELD = re.compile(rb"([!#$%&'*+.^_`|~0-9A-Za-z-]{1,200}):([^\x00\r\n]*)\Z")
"""Blanks around the value are no affair of the pattern's: one that looks for them tries every blank as their beginning."""
_URL = re.compile(r"http://([^/?#]*)(/[^#]*|\?[^#]*)?\Z", re.IGNORECASE)
_ONCE = frozenset({"host", "content-length", "transfer-encoding"})
_SECRET = frozenset({"authorization", "proxy-authorization", "cookie", "set-cookie", "x-api-key"})
HOP = frozenset(
    {
        *(
            "connection",
            "proxy-connection",
            "keep-alive",
            "te",
            "trailer",
            "transfer-encoding",
            "upgrade",
            "expect",
            "host",
        ),
        *("proxy-authorization", "proxy-authenticate", "http2-settings"),
    }
)
"""Headers between two neighbours: never passed on."""


class BadRequest(Exception):
    """No request that is taken. `status` is what the client is told."""

    def __init__(self, status: int, why: str) -> None:
        super().__init__(why)
        self.status = status
        self.why = why


@dataclass(frozen=True, slots=True)
class Head:
    """The head of a request."""

    method: str
    target: str
    minor: int
    fields: tuple[tuple[str, str], ...]

    @property
    def tunnel(self) -> bool:
        return self.method == "CONNECT"

    @property
    def headers(self) -> Mapping[str, str]:
        return {name.lower(): value for name, value in self.fields}

    def destination(self) -> tuple[Destination, str]:
        """Where it goes, and the path that is asked for there (empty for a tunnel).

        Raises:
            BadRequest: it names no destination.
        """
        try:
            if self.tunnel:
                return parse_authority(self.target, None), ""
            url = _URL.match(self.target)
            if url is None:
                raise BadRequest(400, "expected http://host/path, or CONNECT host:port")
            path = url[2] or "/"
            return parse_authority(url[1], 80), path if path.startswith("/") else f"/{path}"
        except ValueError as error:
            raise BadRequest(400, f"{error}") from None

    def passed_on(self, there: Destination, path: str) -> bytes:
        """The head for the server: with the destination's name, without what is between neighbours."""
        listed = {one.strip().lower() for one in self.headers.get("connection", "").split(",")}
        host = str(there) if there.port != 80 else str(there).removesuffix(":80")
        lines = [f"{self.method} {path} HTTP/1.1", f"Host: {host}", "Connection: close"]
        lines += [f"{name}: {value}" for name, value in self.fields if name.lower() not in HOP | (listed - _ONCE)]
        if "transfer-encoding" in self.headers:
            lines.append("Transfer-Encoding: chunked")
        return ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1")

    def shown(self) -> bytes:
        return shown_fields(self.fields)


def shown_fields(fields: tuple[tuple[str, str], ...]) -> bytes:
    """Headers as they are written down: values that authenticate are left out."""
    told = (f"{name}: {'[left out]' if name.lower() in _SECRET else value}" for name, value in fields)
    return "\n".join(told).encode("latin-1", "replace")


class Client:
    """A client's connection."""

    def __init__(self, sock: socket.socket, idle_sec: float) -> None:
        self.socket = sock
        self._idle_sec = idle_sec
        self._buffer = bytearray()

    def read_head(self, seconds: float) -> Head | None:
        """The head of a request, all of it within so many seconds; None when the client says nothing at all.

        Raises:
            BadRequest: malformed, too large, too slow.
            OSError: the connection broke.
        """
        deadline = time.monotonic() + seconds
        while (end := self._buffer.find(b"\r\n\r\n")) < 0:
            if len(self._buffer) > MAX_HEAD:
                raise BadRequest(431, f"the head of the request is larger than {MAX_HEAD} bytes")
            left = deadline - time.monotonic()
            if left <= 0:
                raise BadRequest(408, f"the head of the request took longer than {seconds:g} s")
            self.socket.settimeout(left)
            try:
                data = self.socket.recv(PIECE)
            except TimeoutError:
                continue
            if not data:
                if self._buffer:
                    raise BadRequest(400, "the request ends in its head")
                return None
            self._buffer += data
        if end > MAX_HEAD:
            raise BadRequest(431, f"the head of the request is larger than {MAX_HEAD} bytes")
        raw = bytes(self._buffer[:end])
        del self._buffer[: end + 4]
        self.socket.settimeout(self._idle_sec)
        return _head(raw)

    def body(self, head: Head) -> Iterator[bytes]:
        """What follows a head, without its framing, piece by piece.

        Raises:
            BadRequest: its framing is broken.
            OSError: the connection broke or stood still.
        """
        headers = head.headers
        if "transfer-encoding" in headers:
            yield from self._chunks()
        else:
            yield from self._exactly(int(headers.get("content-length", "0")))

    def rest(self) -> bytes:
        """What came behind a head and is no part of it."""
        data = bytes(self._buffer)
        self._buffer.clear()
        return data

    def _chunks(self) -> Iterator[bytes]:
        while True:
            line = self._line()
            if re.fullmatch(rb"[0-9a-fA-F]{1,8}(?:;[ -~]*)?", line) is None:
                raise BadRequest(400, "bad chunk")
            size = int(line.split(b";")[0], 16)
            if size == 0:
                break
            yield from self._exactly(size)
            if self._line():
                raise BadRequest(400, "bad chunk")
        for _ in range(MAX_HEADERS):
            if not self._line():  # trailers are not passed on
                return
        raise BadRequest(431, "too many trailers")

    def _line(self) -> bytes:
        while (end := self._buffer.find(b"\r\n")) < 0:
            if len(self._buffer) > MAX_HEAD:
                raise BadRequest(400, "bad chunk")
            self._more()
        line = bytes(self._buffer[:end])
        del self._buffer[: end + 2]
        return line

    def _exactly(self, size: int) -> Iterator[bytes]:
        while size:
            if not self._buffer:
                self._more()
            piece = bytes(self._buffer[: min(size, PIECE)])
            del self._buffer[: len(piece)]
            size -= len(piece)
            yield piece

    def _more(self) -> None:
        data = self.socket.recv(PIECE)
        if not data:
            raise BadRequest(400, "the request ends in its body")
        self._buffer += data


def _head(raw: bytes) -> Head:
    first, *rest = raw.split(b"\r\n")
    line = _LINE.match(first)
    if line is None:
        raise BadRequest(400, "not a request of HTTP/1")
    if len(rest) > MAX_HEADERS:
        raise BadRequest(431, f"more than {MAX_HEADERS} headers")
    fields = []
    seen = set()
    for one in rest:
        found = _FIELD.match(one)
        if found is None:
            raise BadRequest(400, "bad header")
        name = found[1].decode("ascii").lower()
        if name in _ONCE and name in seen:
            raise BadRequest(400, f"{name} is given twice")
        seen.add(name)
        fields.append((found[1].decode("ascii"), found[2].strip(b" \t").decode("latin-1")))
    head = Head(line[1].decode("ascii"), line[2].decode("ascii"), int(line[3]), tuple(fields))
    headers = head.headers
    if "transfer-encoding" in headers and (
        headers["transfer-encoding"].lower() != "chunked" or "content-length" in headers or head.minor == 0
    ):
        raise BadRequest(400, "expected a content-length or chunks, not both and nothing else")
    if re.fullmatch(r"[0-9]{1,15}", headers.get("content-length", "0"), re.ASCII) is None:
        raise BadRequest(400, "content-length is no number")
    return head
