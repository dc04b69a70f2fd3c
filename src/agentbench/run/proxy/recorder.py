"""What is written down of everything that goes through a proxy: events for each request, bounded copies, counts and digests."""

from __future__ import annotations

import hashlib
import threading
import time
from dataclasses import dataclass, field

from agentbench.contract.network_allow import Destination
from agentbench.core.command import Stream
from agentbench.core.text import printable
from agentbench.run.proxy.allow_list import Refused
from agentbench.run.proxy.requests import Head
from agentbench.trace.blobs import BlobStore, excerpt
from agentbench.trace.events import Excerpt, NetworkRequest, NetworkResponse, NetworkUsed
from agentbench.trace.log import EventLog

MIB = 1 << 20
TARGET_SHOWN = 2000


@dataclass(frozen=True, slots=True)
class ProxyLimits:
    """How much one attempt may ask of its proxy. All of it is bounded: what a log holds, what memory holds, how long anything waits."""

    connections: int = 64
    """Open at one time; what comes beyond is closed unread."""
    requests: int = 5_000
    """Of an attempt. What comes beyond is refused, and only counted."""
    total_bytes: int = 4096 * MIB
    """Both ways, over the attempt. What comes beyond is broken off."""
    kept_bytes: int = MIB
    """Kept of each body: its beginning."""
    kept_in_all: int = 256 * MIB
    head_sec: float = 15.0
    connect_sec: float = 15.0
    idle_sec: float = 60.0


class Tape:
    """Counts and digests all that passes in one direction, and keeps its beginning."""

    def __init__(self, keep: int = 0) -> None:
        self.keep = keep
        self._kept = bytearray()
        self._hash = hashlib.sha256()
        self.total = 0

    def add(self, data: bytes) -> None:
        self._hash.update(data)
        self.total += len(data)
        room = self.unused
        if room > 0:
            self._kept += data[:room]

    @property
    def unused(self) -> int:
        """How much more would be kept."""
        return self.keep - len(self._kept)

    @property
    def sha256(self) -> str:
        return self._hash.hexdigest()

    def stream(self) -> Stream:
        return Stream(bytes(self._kept), b"", self.total, self.sha256)


@dataclass(slots=True)
class Exchange:
    """One allowed request while it is under way."""

    request_id: str
    plain: bool
    sent: Tape
    received: Tape
    began: float = field(default_factory=time.monotonic)
    address: str = ""
    status: int | None = None
    head: bytes = b""
    error: str = ""


class Recorder:
    """Of one attempt; used by all connections of its proxy."""

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
            Refused: the attempt has used up what it may ask for.
        """
        with self._lock:
            beyond = self._beyond()
        if beyond is not None:
            raise beyond

    def request(self, head: Head, there: Destination | None, refused: Refused | None) -> Exchange:
        """Write a request down, before anything of it is sent.

        Raises:
            Refused: it was given as refused, or there have been too many.
            RecordError: it cannot be written, so nothing may be sent.
        """
        with self._lock:
            if refused is None:
                refused = self._beyond()
            if self._requests >= self._limits.requests or self._closed:
                self._unrecorded += 1
                raise refused or Refused("limit", "the agent's work is over")
            self._requests += 1
            self._refused += refused is not None
            number = self._requests
            keep = min(self._limits.kept_bytes, (self._limits.kept_in_all - self._kept) // 2)
            if refused is not None or head.tunnel:
                keep = 0
            self._kept += 2 * keep
            self._log.append(
                NetworkRequest(
                    request_id=f"n{number}",
                    way="tunnel" if head.tunnel else "http",
                    method=head.method,
                    host=there.host if there else "",
                    port=there.port if there else 0,
                    target=printable(head.target[:TARGET_SHOWN]),
                    head=excerpt(head.shown(), store=self._blobs),
                    refused=refused.kind if refused else "",
                    why=refused.why if refused else "",
                ),
                "agent",
            )
        if refused is not None:
            raise refused
        return Exchange(f"n{number}", not head.tunnel, Tape(keep), Tape(keep))

    def answered(self, exchange: Exchange) -> None:
        """Write down what came of an allowed request.

        Raises:
            RecordError: it cannot be written.
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

    def _copy(self, exchange: Exchange, tape: Tape) -> Excerpt:
        return excerpt(tape.stream(), store=self._blobs) if exchange.plain else Excerpt()

    def passed(self, *, sent: int = 0, received: int = 0) -> None:
        """Account for bytes on their way.

        Raises:
            Refused: the attempt has used up what may pass.
        """
        with self._lock:
            self._sent += sent
            self._received += received
        self.admit()

    def turned_away(self) -> None:
        with self._lock:
            self._turned_away += 1

    def close(self) -> None:
        """Write the sum, and nothing after it. Safe to call twice."""
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

    def _beyond(self) -> Refused | None:
        limits = self._limits
        if self._requests >= limits.requests:
            return Refused("limit", f"more than {limits.requests} requests in one attempt")
        if self._sent + self._received >= limits.total_bytes:
            return Refused("limit", f"more than {limits.total_bytes} bytes in one attempt")
        return None
