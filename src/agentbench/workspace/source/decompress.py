"""Reading a compressed file forwards, with everything bounded: what comes out, what is held, what a header may ask for."""

from __future__ import annotations

import bz2
import lzma
import zlib
from typing import BinaryIO, Protocol

from agentbench.core.command import MIB
from agentbench.core.errors import SourceError

_CHUNK = 64 * 1024
_MAX_READ = 16 * MIB
"""The longest piece anybody may ask for. Archive headers declare their own lengths, and a reader believes them."""
_XZ_MEMORY = 128 * MIB


class _Decompressor(Protocol):
    """What zlib, bz2 and lzma share, give or take."""

    @property
    def eof(self) -> bool: ...

    @property
    def unused_data(self) -> bytes: ...

    @property
    def needs_input(self) -> bool: ...

    def decompress(self, data: bytes, max_length: int = -1) -> bytes: ...


class _Gzip:
    """zlib's object with the manners of the other two."""

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


class Inflated:
    """A file object for `tarfile`: reads and seeks forwards. `budget` bounds all that comes out."""

    def __init__(self, file: BinaryIO, budget: int) -> None:
        self._file = file
        self._budget = budget
        self._position = 0
        self._buffer = b""
        magic = file.read(6)
        file.seek(0)
        self._packed = _decompressor(magic) is not None
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
            SourceError: backwards, or from the end: no archive that is read in order needs it.
        """
        if whence != 0 or position < self._position:
            raise SourceError("the archive cannot be read in order")
        while self._position < position and self.read(min(position - self._position, _MAX_READ)):
            pass
        return self._position

    def read(self, size: int = -1) -> bytes:
        """
        Raises:
            SourceError: a piece longer than any honest header has, or more content than the archive may have.
        """
        if size < 0 or size > _MAX_READ:
            raise SourceError(f"the archive has a header of {size} bytes")
        while len(self._buffer) < size:
            more = self._more()
            if not more:
                break
            self._buffer += more
        piece, self._buffer = self._buffer[:size], self._buffer[size:]
        self._position += len(piece)
        if self._position > self._budget:
            raise SourceError(f"the archive holds more than {self._budget} bytes for its size: refused as a bomb")
        return piece

    def _more(self) -> bytes:
        """The next bytes that come out; none at the end."""
        if not self._packed:
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
                    raise EOFError("the archive ends in the middle")
            try:
                out = state.decompress(data, _CHUNK)
            except OSError as error:  # how bz2 says that the data are damaged
                raise SourceError(f"the archive cannot be read: {error}") from error
            if state.eof:
                self._pending = state.unused_data or self._file.read(_CHUNK)
                self._state = None
                if not self._pending.strip(b"\0"):  # padding after the last stream
                    self._packed, self._pending = False, b""
                    self._file.seek(0, 2)
            if out or not self._packed:
                return out
