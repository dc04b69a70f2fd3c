"""Records what passes through a proxy: events for each request, bounded copies, byte counts and digests."""

from __future__ import annotations

import hashlib
import threading
import time
from dataclasses import field

from agentbench.contract.network_allow import Destination
from agentbench.core.command import Stream
from agentbench.core.dataclass import dataclass
from agentbench.core.http1 import RequestHead
from agentbench.core.text import printable
from agentbench.execution.proxy.allow_list import Refused
from agentbench.execution.proxy.requests import is_tunnel, recorded_fields
from agentbench.trace.blobs import BlobStore, excerpt
from agentbench.trace.events import Excerpt, NetworkRequest, NetworkResponse, NetworkUsed
from agentbench.trace.log import EventLog

MIB = 1 << 20
MAX_TARGET = 2000


@dataclass(frozen=True, slots=True)
class ProxyLimits:
    """Limits of one attempt's proxy, so that logs, memory and waiting times are all bounded."""

    connections: int = 64
    """Open at a time. Further connections are closed unread."""
    requests: int = 5_000
    """Per attempt. Further requests are refused, and only counted."""
    total_bytes: int = 4096 * MIB
    """Per attempt, in both directions together. A request that exceeds it is aborted."""
    kept_bytes: int = MIB
    """Recorded of each body, from its beginning."""
    kept_in_total: int = 256 * MIB
    head_sec: float = 15.0
    connect_sec: float = 15.0
    idle_sec: float = 60.0


class Capture:
    """Counts and digests the bytes of one direction, and keeps their beginning."""

    def __init__(self, keep: int = 0) -> None:
        self.keep = keep
        self._kept = bytearray()
        self._hash = hashlib.sha256()
        self.total = 0

    def add(self, data: bytes) -> None:
        self._hash.update(data)
        self.total += len(data)
        if self.unused > 0:
            self._kept += data[: self.unused]

    @property
    def unused(self) -> int:
        """Number of bytes that can still be kept."""
        return self.keep - len(self._kept)

    @property
    def sha256(self) -> str:
        return self._hash.hexdigest()

    def stream(self) -> Stream:
        return Stream(bytes(self._kept), b"", self.total, self.sha256)


@dataclass(slots=True)
class Exchange:
    """One allowed request while it is in progress."""

    request_id: str
    plain: bool
    sent: Capture
    received: Capture
    began: float = field(default_factory=time.monotonic)
    address: str = ""
    status: int | None = None
    head: bytes = b""
    error: str = ""


class Recorder:
    """Records for one attempt; shared by all connections of its proxy."""

    def __init__(self, log: EventLog, blobs: BlobStore, limits: ProxyLimits) -> None:
        self._log = log
        self._blobs = blobs
        self._limits = limits
        self._lock = threading.Lock()
        self._closed = False
        self._requests = self._refused = self._unrecorded = self._turned_away = 0
        self._sent = self._received = self._kept = 0

    def admit(self) -> None:
        """
        Raises:
            Refused: a limit of the attempt is reached.
        """
        with self._lock:
            refused = self._limit_reached()
        if refused is not None:
            raise refused

    def request(self, head: RequestHead, destination: Destination | None, refused: Refused | None) -> Exchange:
        """Record a request before any of it is sent.

        Raises:
            Refused: `refused` itself, or a limit is reached.
            RecordError: it cannot be recorded, so nothing may be sent.
        """
        with self._lock:
            if refused is None:
                refused = self._limit_reached()
            if self._requests >= self._limits.requests or self._closed:
                self._unrecorded += 1
                raise refused or Refused("limit", "the agent phase is over")
            self._requests += 1
            self._refused += refused is not None
            number = self._requests
            keep = min(self._limits.kept_bytes, (self._limits.kept_in_total - self._kept) // 2)
            if refused is not None or is_tunnel(head):
                keep = 0
            self._kept += 2 * keep
            self._log.append(
                NetworkRequest(
                    request_id=f"n{number}",
                    way="tunnel" if is_tunnel(head) else "http",
                    method=head.method,
                    host=destination.host if destination else "",
                    port=destination.port if destination else 0,
                    target=printable(head.target[:MAX_TARGET]),
                    head=excerpt(recorded_fields(head.fields), store=self._blobs),
                    refused=refused.kind if refused else "",
                    why=refused.message if refused else "",
                ),
                "agent",
            )
        if refused is not None:
            raise refused
        return Exchange(f"n{number}", not is_tunnel(head), Capture(keep), Capture(keep))

    def response(self, exchange: Exchange) -> None:
        """Record the outcome of an allowed request.

        Raises:
            RecordError: it cannot be recorded.
        """
        with self._lock:
            self._kept -= exchange.sent.unused + exchange.received.unused
            if self._closed:
                return
            self._log.append(
                NetworkResponse(
                    request_id=exchange.request_id,
                    address=exchange.address,
                    status=exchange.status,
                    request_body=self._copy(exchange, exchange.sent),
                    head=excerpt(exchange.head, store=self._blobs),
                    body=self._copy(exchange, exchange.received),
                    sent_bytes=exchange.sent.total,
                    sent_sha256=exchange.sent.sha256,
                    received_bytes=exchange.received.total,
                    received_sha256=exchange.received.sha256,
                    duration_us=int((time.monotonic() - exchange.began) * 1_000_000),
                    error=exchange.error,
                )
            )

    def _copy(self, exchange: Exchange, capture: Capture) -> Excerpt:
        return excerpt(capture.stream(), store=self._blobs) if exchange.plain else Excerpt()

    def count(self, *, sent: int = 0, received: int = 0) -> None:
        """Count forwarded bytes.

        Raises:
            Refused: a limit of the attempt is reached.
        """
        with self._lock:
            self._sent += sent
            self._received += received
        self.admit()

    def count_rejected_connection(self) -> None:
        with self._lock:
            self._turned_away += 1

    def close(self) -> None:
        """Record the totals, and nothing after them. Safe to call twice."""
        with self._lock:
            if self._closed:
                return
            self._closed = True
            self._log.append(
                NetworkUsed(
                    requests=self._requests,
                    refused=self._refused,
                    turned_away=self._turned_away,
                    unrecorded=self._unrecorded,
                    sent_bytes=self._sent,
                    received_bytes=self._received,
                )
            )

    def _limit_reached(self) -> Refused | None:
        limits = self._limits
        if self._requests >= limits.requests:
            return Refused("limit", f"more than {limits.requests} requests in one attempt")
        if self._sent + self._received >= limits.total_bytes:
            return Refused("limit", f"more than {limits.total_bytes} bytes in one attempt")
        return None
