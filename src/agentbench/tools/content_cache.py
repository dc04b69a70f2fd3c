"""Contents of small files by their digest, kept for all sessions of this process: attempts at one task share most of them."""

from __future__ import annotations

import threading
from collections import OrderedDict

MAX_FILE = 256 * 1024
MAX_BYTES = 32 * 1024 * 1024


class Contents:
    """The most recently used, within a bound."""

    def __init__(self, max_bytes: int = MAX_BYTES) -> None:
        self._max_bytes = max_bytes
        self._lock = threading.Lock()
        self._kept: OrderedDict[str, bytes] = OrderedDict()
        self._bytes = 0

    def get(self, digest: str) -> bytes | None:
        with self._lock:
            found = self._kept.get(digest)
            if found is not None:
                self._kept.move_to_end(digest)
            return found

    def put(self, digest: str, content: bytes) -> None:
        if len(content) > MAX_FILE:
            return
        with self._lock:
            if digest in self._kept:
                return
            self._kept[digest] = content
            self._bytes += len(content)
            while self._bytes > self._max_bytes:
                _, oldest = self._kept.popitem(last=False)
                self._bytes -= len(oldest)


SHARED = Contents()
