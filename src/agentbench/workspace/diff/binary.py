"""Binary content of git patches: base85 lines with deflated literals and deltas. Every size is checked."""

from __future__ import annotations

import base64
import hashlib
import zlib

from agentbench.core.errors import PatchInvalid

_LINE_BYTES = 52


def blob_id(content: bytes) -> str:
    """Return the id that git gives to this content."""
    return hashlib.sha1(b"blob %d\0" % len(content) + content, usedforsecurity=False).hexdigest()


def encode(content: bytes) -> bytes:
    """Encode a literal, without its header line."""
    packed = zlib.compress(content)
    lines = []
    for start in range(0, len(packed), _LINE_BYTES):
        piece = packed[start : start + _LINE_BYTES]
        length = len(piece) + (64 if len(piece) <= 26 else 70)
        lines.append(bytes([length]) + base64.b85encode(piece, pad=True))
    return b"\n".join(lines) + b"\n"


def decode_line(line: bytes) -> bytes:
    """Decode one base85 line.

    Raises:
        PatchInvalid: the line is not base85.
    """
    first = line[0]
    length = first - 64 if 65 <= first <= 90 else first - 70 if 97 <= first <= 122 else 0
    try:
        data = base64.b85decode(line[1:])
    except ValueError:
        length = 0
        data = b""
    if not length or len(data) != (length + 3) // 4 * 4:
        raise PatchInvalid("a line of the binary patch is not valid base85")
    return data[:length]


def inflate(data: bytes, size: int) -> bytes:
    """Decompress exactly `size` bytes, and never hold more in memory.

    Raises:
        PatchInvalid: the data is damaged or has a different size.
    """
    state = zlib.decompressobj()
    try:
        content = state.decompress(data, size + 1)
    except zlib.error as error:
        raise PatchInvalid(f"the binary patch cannot be decompressed: {error}") from error
    if len(content) != size or not state.eof or state.unused_data:
        raise PatchInvalid(f"the binary patch does not decompress to the declared {size} bytes")
    return content


def delta_target_size(delta: bytes) -> int:
    """Return the size that a delta declares for its result."""
    _, position = _varint(delta, 0)
    return _varint(delta, position)[0]


def apply_delta(source: bytes, delta: bytes) -> bytes:
    """Apply a git delta to `source`.

    Raises:
        PatchInvalid: the delta is damaged or was made for a different source.
    """
    source_size, position = _varint(delta, 0)
    target_size, position = _varint(delta, position)
    if source_size != len(source):
        raise PatchInvalid(f"the binary delta expects a file of {source_size} bytes, but it has {len(source)}")
    parts: list[bytes] = []
    size = 0
    while position < len(delta):
        piece, position = _instruction(source, delta, position)
        size += len(piece)
        if size > target_size:
            break
        parts.append(piece)
    if size != target_size:
        raise PatchInvalid(f"the binary delta does not produce the declared {target_size} bytes")
    return b"".join(parts)


def _instruction(source: bytes, delta: bytes, position: int) -> tuple[bytes, int]:
    """Execute one instruction: copy from the source, or insert from the delta."""
    code = delta[position]
    position += 1
    if code & 0x80:
        numbers = [0, 0]
        for bit in range(7):
            if code & (1 << bit):
                if position >= len(delta):
                    raise PatchInvalid("the binary delta ends inside an instruction")
                numbers[bit >= 4] |= delta[position] << (8 * (bit if bit < 4 else bit - 4))
                position += 1
        start, count = numbers[0], numbers[1] or 0x10000
        if start + count > len(source):
            raise PatchInvalid("the binary delta copies from outside its source")
        return source[start : start + count], position
    if not code or position + code > len(delta):
        raise PatchInvalid("the binary delta is damaged")
    return delta[position : position + code], position + code


def _varint(data: bytes, position: int) -> tuple[int, int]:
    value = shift = 0
    while position < len(data) and shift < 63:
        byte = data[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if not byte & 0x80:
            return value, position
        shift += 7
    raise PatchInvalid("the binary delta has a damaged header")
