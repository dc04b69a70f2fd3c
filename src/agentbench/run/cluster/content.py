"""Content that attempts need on nodes, addressed by SHA-256: in memory, or in a temporary file if it is large."""

from __future__ import annotations

import io
import tempfile
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import BinaryIO

from agentbench.core.canonical import sha256_hex
from agentbench.core.errors import HarnessError

_IN_MEMORY = 4 << 20
_CHUNK = 1 << 20


@dataclass(frozen=True, slots=True)
class Address:
    """The address of content: its digest and its length."""

    sha256: str
    size: int


class ContentStore:
    """The driver's content. Nodes fetch what they do not have."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._data: dict[str, bytes] = {}
        self._files: dict[str, BinaryIO] = {}
        self._addresses: dict[object, Address] = {}
        self.sent_bytes = 0

    def add(self, data: bytes) -> Address:
        address = Address(sha256_hex(data), len(data))
        with self._lock:
            self._data[address.sha256] = data
        return address

    def once(self, key: object, write: Callable[[BinaryIO], None]) -> Address:
        """Return the address of the content that `write` writes. It is written once per key."""
        with self._lock:
            if key in self._addresses:
                return self._addresses[key]
        file: BinaryIO = tempfile.SpooledTemporaryFile(_IN_MEMORY, prefix="agentbench-")  # type: ignore[assignment]  # noqa: SIM115
        write(file)
        address = _address(file)
        with self._lock:
            self._addresses[key] = address
            self._files.setdefault(address.sha256, file)
        return address

    def read(self, sha256: str, send: Callable[[bytes], None]) -> None:
        """Pass content to `send`, in chunks.

        Raises:
            HarnessError: there is no such content.
        """
        with self._lock:
            data, file = self._data.get(sha256), self._files.get(sha256)
        if data is None and file is None:
            raise HarnessError(f"unknown content {sha256}")
        source: BinaryIO = io.BytesIO(data) if data is not None else file  # type: ignore[assignment]
        offset = 0
        while chunk := self._chunk(source, offset):
            send(chunk)
            offset += len(chunk)
        self.sent_bytes += offset

    def size(self, sha256: str) -> int | None:
        """Return the length of content; None if there is no such content."""
        with self._lock:
            if sha256 in self._data:
                return len(self._data[sha256])
            known = [address.size for address in self._addresses.values() if address.sha256 == sha256]
        return known[0] if known else None

    def close(self) -> None:
        for file in self._files.values():
            file.close()

    def _chunk(self, source: BinaryIO, offset: int) -> bytes:
        with self._lock:  # several nodes read the same file
            source.seek(offset)
            return source.read(_CHUNK)


def _address(file: BinaryIO) -> Address:
    import hashlib  # noqa: PLC0415 - only for files

    state, size = hashlib.sha256(), 0
    file.seek(0)
    while chunk := file.read(_CHUNK):
        state.update(chunk)
        size += len(chunk)
    return Address(state.hexdigest(), size)
