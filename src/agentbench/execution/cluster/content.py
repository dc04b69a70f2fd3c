"""Content that attempts need on nodes, addressed by SHA-256, in one temporary file of the driver that has no name."""

from __future__ import annotations

import hashlib
import os
import shutil
import tempfile
import threading
from collections.abc import Callable, Hashable
from io import BytesIO
from typing import BinaryIO

from agentbench.core.dataclass import dataclass
from agentbench.core.errors import HarnessError

_IN_MEMORY = 1 << 20
_CHUNK = 1 << 20


@dataclass(frozen=True, slots=True)
class Address:
    """The address of content: its digest and its length."""

    sha256: str
    size: int


class ContentStore:
    """The driver's content. Nodes fetch what they do not have. Memory does not grow with the content."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._file: BinaryIO = tempfile.TemporaryFile(prefix="agentbench-")  # noqa: SIM115 - closed by `close`
        self._end = 0
        self._places: dict[str, tuple[int, int]] = {}
        """Offset and size of content, by digest."""
        self._addresses: dict[Hashable, Address] = {}
        self._key_locks: dict[Hashable, threading.Lock] = {}
        self._sent = 0

    @property
    def sent_bytes(self) -> int:
        """Bytes that nodes have fetched."""
        return self._sent

    def add(self, data: bytes) -> Address:
        return self._append(BytesIO(data))

    def once(self, key: Hashable, write: Callable[[BinaryIO], None]) -> Address:
        """Return the address of the content that `write` writes. It is written once per key; others wait meanwhile."""
        with self._lock:
            key_lock = self._key_locks.setdefault(key, threading.Lock())
        with key_lock:
            if key not in self._addresses:
                with tempfile.SpooledTemporaryFile(_IN_MEMORY, prefix="agentbench-") as file:
                    write(file)  # type: ignore[arg-type]
                    file.seek(0)
                    self._addresses[key] = self._append(file)  # type: ignore[arg-type]
            return self._addresses[key]

    def read(self, sha256: str, send: Callable[[bytes], None]) -> None:
        """Pass content to `send`, in chunks.

        Raises:
            HarnessError: there is no such content.
        """
        place = self._places.get(sha256)
        if place is None:
            raise HarnessError(f"unknown content {sha256}")
        offset, left = place
        while left:
            chunk = os.pread(self._file.fileno(), min(_CHUNK, left), offset)
            if not chunk:
                raise HarnessError(f"content {sha256} is not complete")
            send(chunk)
            offset, left = offset + len(chunk), left - len(chunk)
            with self._lock:
                self._sent += len(chunk)

    def size(self, sha256: str) -> int | None:
        """Return the length of content; None if there is no such content."""
        place = self._places.get(sha256)
        return None if place is None else place[1]

    def close(self) -> None:
        self._file.close()

    def _append(self, source: BinaryIO) -> Address:
        state, size = hashlib.sha256(), 0
        while chunk := source.read(_CHUNK):
            state.update(chunk)
            size += len(chunk)
        address = Address(state.hexdigest(), size)
        with self._lock:
            if address.sha256 not in self._places:
                source.seek(0)
                self._file.seek(self._end)
                shutil.copyfileobj(source, self._file, _CHUNK)
                self._file.flush()
                self._places[address.sha256] = self._end, size
                self._end += size
        return address
