"""Captures a command's output in bounded memory, and packs messages for the command channel."""

from __future__ import annotations

import time

CHUNK = 65536


def pack(fields: list[bytes]) -> bytes:
    """Encode fields as `u32 length, bytes` each. Numbers are sent as decimal text."""
    return b"".join([part for field in fields for part in (len(field).to_bytes(4, "big"), field)])


def unpack(body: bytes) -> list[bytes]:
    fields, offset = [], 0
    while offset < len(body):
        size = int.from_bytes(body[offset : offset + 4], "big")
        fields.append(body[offset + 4 : offset + 4 + size])
        offset += 4 + size
    return fields


def number(value: int) -> bytes:
    return b"%d" % value


class LogBudget:
    """Bounds the size of a log: so many bytes at once, and so many per second after that."""

    def __init__(self, burst: int = 8 << 20, per_sec: int = 64 << 10) -> None:
        self.burst = burst
        self.per_sec = per_sec
        self.credit = float(burst)
        self.since = time.monotonic()

    def available(self) -> bool:
        now = time.monotonic()
        self.credit = min(self.burst, self.credit + (now - self.since) * self.per_sec)
        self.since = now
        return self.credit > 0

    def spend(self, size: int) -> None:
        self.credit -= size


class Hash:
    """The interface of hash objects, whichever module provides them."""

    def update(self, data: bytes) -> None: ...

    def hexdigest(self) -> str: ...  # type: ignore[empty-body]


def best_hash(size: int) -> Hash:
    names = ("_sha256", "_sha2", "hashlib") if size <= CHUNK else ("hashlib",)
    for name in names:
        try:
            sha: Hash = __import__(name).sha256()
        except ImportError:
            continue
        return sha
    raise ImportError("sha256")


class Digest:
    """SHA-256 of a stream. Short output uses the small built-in module; long output OpenSSL, which loads in 4 ms."""

    def __init__(self) -> None:
        self.buffered: list[bytes] = []
        self.size = 0
        self.sha: Hash | None = None

    def update(self, data: bytes) -> None:
        if self.sha is not None:
            self.sha.update(data)
            return
        self.buffered.append(data)
        self.size += len(data)
        if self.size > CHUNK:
            self.choose_hash()

    def choose_hash(self) -> Hash:
        sha = self.sha = best_hash(self.size)
        for data in self.buffered:
            sha.update(data)
        self.buffered = []
        return sha

    def hexdigest(self) -> bytes:
        return (self.sha or self.choose_hash()).hexdigest().encode()


class Capture:
    """Keeps the beginning and the end of a stream, its length and its digest."""

    def __init__(self, keep: int, tag: bytes) -> None:
        self.tag = tag
        self.head_room = (keep + 1) // 2
        self.tail_room = keep - self.head_room
        self.head: list[bytes] = []
        self.tail: list[bytes] = []
        self.tail_size = 0
        self.total = 0
        self.digest = Digest()

    def feed(self, data: bytes) -> None:
        self.total += len(data)
        self.digest.update(data)
        if self.head_room > 0:
            self.head.append(data[: self.head_room])
            data, self.head_room = data[self.head_room :], self.head_room - len(data)
        if data and self.tail_room:
            self.tail.append(data)
            self.tail_size += len(data)
            if self.tail_size > 2 * self.tail_room + CHUNK:
                self.cut()

    def cut(self) -> None:
        self.tail = [b"".join(self.tail)[-self.tail_room :]]
        self.tail_size = len(self.tail[0])

    def fields(self) -> list[bytes]:
        if self.tail_size > self.tail_room:
            self.cut()
        return [number(self.total), self.digest.hexdigest(), b"".join(self.head), b"".join(self.tail)]


class SideCapture:
    """Keeps what a command writes to its side channel, up to a limit."""

    tag = b"side"

    def __init__(self, room: int) -> None:
        self.room = room
        self.data: list[bytes] = []
        self.truncated = False

    def feed(self, data: bytes) -> None:
        self.truncated = self.truncated or len(data) > self.room
        if self.room:
            self.data.append(data[: self.room])
            self.room -= min(len(data), self.room)
