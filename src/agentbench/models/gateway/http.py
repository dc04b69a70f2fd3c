"""A client's connection to the gateway: requests are read within memory limits, responses written whole or in chunks."""

from __future__ import annotations

import json
import select
import socket
import threading
from collections.abc import Mapping

from agentbench.core.dataclass import dataclass
from agentbench.core.http1 import CONTINUE, LAST_CHUNK, BadRequest, RequestHead, RequestReader, chunk, response_head
from agentbench.models.json_values import JsonObject

IDLE_SEC = 300.0
MAX_BODY = 32 << 20
MAX_HELD = 256 << 20
_SMALL_BODY = 64 << 10
_BYTES_PER_VALUE = 64
_BYTES_PER_CHARACTER = 4
_GONE = select.POLLRDHUP | select.POLLHUP | select.POLLERR


@dataclass(frozen=True, slots=True)
class Request:
    head: RequestHead
    path: str
    body: bytes

    @property
    def headers(self) -> Mapping[str, str]:
        return self.head.headers


class MemoryBudget:
    """Limits the host memory that all requests of one gateway hold at a time. A sandbox must not be able to exhaust it."""

    def __init__(self, limit: int = MAX_HELD) -> None:
        self._limit = self._left = limit
        self._lock = threading.Lock()

    def take(self, size: int) -> None:
        """
        Raises:
            BadRequest: `size` does not fit, now or ever.
        """
        with self._lock:
            if size > self._limit:
                raise BadRequest(413, "the request is too large")
            if size > self._left:
                raise BadRequest(503, "too many large requests at once")
            self._left -= size

    def release(self, size: int) -> None:
        with self._lock:
            self._left += size


class Connection:
    """Reads requests and writes responses. Reading the next request releases the memory of the previous one."""

    def __init__(self, sock: socket.socket, memory: MemoryBudget | None = None) -> None:
        self.socket = sock
        self._reader = RequestReader(sock, IDLE_SEC)
        self._memory = memory or MemoryBudget()
        self._held = 0
        self._chunked = True
        """Whether the client understands chunks, which HTTP/1.0 does not have."""

    def read_request(self) -> Request | None:
        """Return the next request, or None when the client is done.

        Raises:
            BadRequest: it is malformed or too large.
            OSError: the connection broke or timed out.
        """
        self.release()
        head = self._reader.read_head(IDLE_SEC)
        if head is None:
            return None
        if not head.target.startswith("/"):
            raise BadRequest(400, "expected a path as the request target")
        if head.expects_continue:
            self.socket.sendall(CONTINUE)
        self._chunked = head.minor == 1
        body = self._read_body(head)
        # Parsed, an empty JSON object takes twenty times the memory of its two braces.
        if len(body) > _SMALL_BODY:
            self._hold(_BYTES_PER_VALUE * (len(body) - len(body.translate(None, b"{[,"))))
            # One character beyond ASCII makes all of a text as wide.
            if not body.isascii() or b"\\u" in body:
                self._hold(_BYTES_PER_CHARACTER * len(body))
        return Request(head, head.target.split("?")[0], body)

    def release(self) -> None:
        """Release the memory of the last request."""
        self._memory.release(self._held)
        self._held = 0

    def _hold(self, size: int) -> None:
        self._memory.take(size)
        self._held += size

    def _read_body(self, head: RequestHead) -> bytes:
        _check_size(head.content_length)
        self._hold(head.content_length)
        body = bytearray()
        for piece in self._reader.body(head):
            if head.chunked:
                _check_size(len(body) + len(piece))
                self._hold(len(piece))
            body += piece
        return bytes(body)

    # --- writing --------------------------------------------------------------------------------------------------

    def respond(self, status: int, body: JsonObject | bytes, headers: Mapping[str, str] | None = None) -> None:
        """Write a whole response."""
        data = body if isinstance(body, bytes) else json.dumps(body, ensure_ascii=False).encode("utf-8", "replace")
        fields = {"content-type": "application/json", **(headers or {}), "content-length": str(len(data))}
        self.socket.sendall(response_head(status, fields.items()) + data)

    def begin(self, content_type: str) -> None:
        """Write the head of a response of unknown length."""
        fields = {"content-type": content_type, "cache-control": "no-cache"}
        fields |= {"transfer-encoding": "chunked"} if self._chunked else {"connection": "close"}
        self.socket.sendall(response_head(200, fields.items()))

    def piece(self, data: bytes) -> None:
        if data:
            self.socket.sendall(chunk(data) if self._chunked else data)

    def finish(self) -> None:
        if self._chunked:
            self.socket.sendall(LAST_CHUNK)

    def is_gone(self) -> bool:
        """Return whether the client has closed its side, without waiting."""
        try:
            # Not recv: on a socket with a timeout, Python waits that long before it looks.
            poll = select.poll()
            poll.register(self.socket, _GONE)
            return bool(poll.poll(0))
        except (OSError, ValueError):
            return True


def _check_size(size: int) -> None:
    if size > MAX_BODY:
        raise BadRequest(413, f"the request is larger than {MAX_BODY} bytes")
