"""What is kept of a command's output, in flat memory, and how messages are written on the wire."""

from __future__ import annotations

CHUNK = 65536


def pack(fields: list[bytes]) -> bytes:
    """A list of fields as `u32 length, bytes` each; numbers go as decimal text."""
    return b"".join([part for field in fields for part in (len(field).to_bytes(4, "big"), field)])


def unpack(body: bytes) -> list[bytes]:
    fields, at = [], 0
    while at < len(body):
        size = int.from_bytes(body[at : at + 4], "big")
        fields.append(body[at + 4 : at + 4 + size])
        at += 4 + size
    return fields


def number(value: int) -> bytes:
    return b"%d" % value


class Hash:
    """The shape of the hash objects of whichever module this interpreter has."""

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
    """SHA-256. Little output is digested by the small built-in module, much by OpenSSL, which takes 4 ms to load."""

    def __init__(self) -> None:
        self.waiting: list[bytes] = []
        self.size = 0
        self.sha: Hash | None = None

    def update(self, data: bytes) -> None:
        if self.sha is not None:
            self.sha.update(data)
            return
        self.waiting.append(data)
        self.size += len(data)
        if self.size > CHUNK:
            self.settle()

    def settle(self) -> Hash:
        sha = self.sha = best_hash(self.size)
        for data in self.waiting:
            sha.update(data)
        self.waiting = []
        return sha

    def hexdigest(self) -> bytes:
        return (self.sha or self.settle()).hexdigest().encode()


class Capture:
    """The two ends of a stream, its length and its digest."""

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


class Side:
    """What a command wrote to its result descriptor, up to its cap."""

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
