"""The binary parts of git patches: base85 lines around deflated literals and deltas, with every size bounded."""

from __future__ import annotations

import base64
import hashlib
import zlib

from agentbench.core.errors import PatchInvalid

_LINE_BYTES = 52


def blob_id(content: bytes) -> str:
    """The name git gives to this content."""
    return hashlib.sha1(b"blob %d\0" % len(content) + content, usedforsecurity=False).hexdigest()


def encode(content: bytes) -> bytes:
    """The lines of a literal, without its head."""
    packed = zlib.compress(content)
    lines = []
    for start in range(0, len(packed), _LINE_BYTES):
        piece = packed[start : start + _LINE_BYTES]
        length = len(piece) + (64 if len(piece) <= 26 else 70)
        lines.append(bytes([length]) + base64.b85encode(piece, pad=True))
    return b"\n".join(lines) + b"\n"


def decode_line(line: bytes) -> bytes:
    """The bytes of one base85 line.

    Raises:
        PatchInvalid: it is not one.
    """
    first = line[0]
    length = first - 64 if 65 <= first <= 90 else first - 70 if 97 <= first <= 122 else 0
    try:
        data = base64.b85decode(line[1:])
    except ValueError:
        length = 0
        data = b""
    if not length or len(data) != (length + 3) // 4 * 4:
        raise PatchInvalid("a binary patch has a line that is not base85")
    return data[:length]


def inflate(data: bytes, size: int) -> bytes:
    """Exactly `size` bytes, never more in memory.

    Raises:
        PatchInvalid: the data are damaged or have another size than they say.
    """
    state = zlib.decompressobj()
    try:
        content = state.decompress(data, size + 1)
    except zlib.error as error:
        raise PatchInvalid(f"a binary patch cannot be inflated: {error}") from error
    if len(content) != size or not state.eof or state.unused_data:
        raise PatchInvalid(f"a binary patch does not inflate to the {size} bytes it declares")
    return content


def delta_target_size(delta: bytes) -> int:
    """How large the result of a delta says it is."""
    _, at = _varint(delta, 0)
    return _varint(delta, at)[0]


def apply_delta(source: bytes, delta: bytes) -> bytes:
    """The content that a git delta makes of `source`.

    Raises:
        PatchInvalid: the delta is damaged or was made for another source.
    """
    source_size, at = _varint(delta, 0)
    target_size, at = _varint(delta, at)
    if source_size != len(source):
        raise PatchInvalid(f"a binary delta is for {source_size} bytes, the file has {len(source)}")
    parts: list[bytes] = []
    made = 0
    while at < len(delta):
        piece, at = _step(source, delta, at)
        made += len(piece)
        if made > target_size:
            break
        parts.append(piece)
    if made != target_size:
        raise PatchInvalid(f"a binary delta does not make the {target_size} bytes it declares")
    return b"".join(parts)


def _step(source: bytes, delta: bytes, at: int) -> tuple[bytes, int]:
    """One instruction: copy from the source, or insert from the delta."""
    code = delta[at]
    at += 1
    if code & 0x80:
        numbers = [0, 0]
        for bit in range(7):
            if code & (1 << bit):
                if at >= len(delta):
                    raise PatchInvalid("a binary delta ends in the middle")
                numbers[bit >= 4] |= delta[at] << (8 * (bit if bit < 4 else bit - 4))
                at += 1
        start, count = numbers[0], numbers[1] or 0x10000
        if start + count > len(source):
            raise PatchInvalid("a binary delta copies from outside its source")
        return source[start : start + count], at
    if not code or at + code > len(delta):
        raise PatchInvalid("a binary delta is damaged")
    return delta[at : at + code], at + code


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while at < len(data) and shift < 63:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if not byte & 0x80:
            return value, at
        shift += 7
    raise PatchInvalid("a binary delta has a damaged head")
