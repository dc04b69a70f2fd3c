"""Reads compressed files with bounded output, memory and read sizes."""

from __future__ import annotations

import bz2
import lzma
import zlib
from typing import BinaryIO, Protocol

from agentbench.core.command import MIB
from agentbench.core.errors import SourceError

_CHUNK = 64 * 1024
_MAX_READ = 16 * MIB
"""Longest single read. Archive headers declare lengths, and `tarfile` trusts them."""
_XZ_MEMORY = 128 * MIB


class _Decompressor(Protocol):
    """The common interface of the bz2 and lzma decompressors."""

    @property
    def eof(self) -> bool: ...

    @property
    def unused_data(self) -> bytes: ...

    @property
    def needs_input(self) -> bool: ...

    def decompress(self, data: bytes, max_length: int = -1) -> bytes: ...


class _Gzip:
    """Gives zlib's decompressor the interface of bz2 and lzma."""

    def __init__(self) -> None:
        self._state = zlib.decompressobj(wbits=31)

    @property
    def eof(self) -> bool:
        return self._state.eof

    @property
    def unused_data(self) -> bytes:
        return self._state.unused_data

    @property
    def needs_input(self) -> bool:
        return not self._state.unconsumed_tail

    def decompress(self, data: bytes, max_length: int = -1) -> bytes:
        return self._state.decompress(self._state.unconsumed_tail + data, max_length)


def _decompressor(magic: bytes) -> _Decompressor | None:
    if magic.startswith(b"\x1f\x8b"):
        return _Gzip()
    if magic.startswith(b"BZh"):
        return bz2.BZ2Decompressor()
    if magic.startswith(b"\xfd7zXZ\x00"):
        return lzma.LZMADecompressor(format=lzma.FORMAT_XZ, memlimit=_XZ_MEMORY)
    return None


class DecompressedFile:
    """A file object for `tarfile` that reads and seeks forwards. `budget` is the limit for all decompressed bytes."""

    def __init__(self, file: BinaryIO, budget: int) -> None:
        self._file = file
        self._budget = budget
        self._position = 0
        self._buffer = b""
        magic = file.read(6)
        file.seek(0)
        self._compressed = _decompressor(magic) is not None
        self._magic = magic
        self._state = _decompressor(magic)
        self._pending = b""

    def tell(self) -> int:
        return self._position

    def seekable(self) -> bool:
        return True

    def seek(self, position: int, whence: int = 0) -> int:
        """
        Raises:
            SourceError: backwards, or relative to the end. An archive that is read in order needs neither.
        """
        if whence != 0 or position < self._position:
            raise SourceError("the archive cannot be read sequentially")
        while self._position < position and self.read(min(position - self._position, _MAX_READ)):
            pass
        return self._position

    def read(self, size: int = -1) -> bytes:
        """
        Raises:
            SourceError: the read is longer than any valid header, or the archive exceeds its budget.
        """
        if size < 0 or size > _MAX_READ:
            raise SourceError(f"the archive has a header of {size} bytes")
        while len(self._buffer) < size:
            chunk = self._next_chunk()
            if not chunk:
                break
            self._buffer += chunk
        piece, self._buffer = self._buffer[:size], self._buffer[size:]
        self._position += len(piece)
        if self._position > self._budget:
            raise SourceError(f"the archive unpacks to more than {self._budget} bytes, too much for its size")
        return piece

    def _next_chunk(self) -> bytes:
        """Return the next decompressed bytes; none at the end."""
        if not self._compressed:
            return self._file.read(_CHUNK)
        while True:
            if self._state is None:
                self._state = _decompressor(self._magic)
            state = self._state
            if state is None:
                return b""
            data = b""
            if state.needs_input:
                data = self._pending or self._file.read(_CHUNK)
                self._pending = b""
                if not data:
                    raise EOFError("the archive is truncated")
            try:
                content = state.decompress(data, _CHUNK)
            except OSError as error:  # bz2 raises OSError for damaged data
                raise SourceError(f"cannot read the archive: {error}") from error
            if state.eof:
                self._pending = state.unused_data or self._file.read(_CHUNK)
                self._state = None
                if not self._pending.strip(b"\0"):  # padding after the last stream
                    self._compressed, self._pending = False, b""
                    self._file.seek(0, 2)
            if content or not self._compressed:
                return content
