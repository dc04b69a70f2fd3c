"""Large outputs: kept by digest, shown as bounded excerpts."""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Literal

from agentbench.core.atomic_file import write_atomic
from agentbench.core.canonical import sha256_hex
from agentbench.core.command import Stream
from agentbench.core.errors import RecordError
from agentbench.trace.events import Excerpt
from agentbench.trace.redaction import Redactor

LIMIT = 4096
"""Bytes of an output that an event shows by itself."""

_LEADS = ((0xF0, 4), (0xE0, 3), (0xC0, 2))
"""First byte of a UTF-8 character from which on it has that many bytes."""


class BlobStore:
    """A folder of files named by the SHA-256 of their content. Secrets are replaced before anything is stored."""

    def __init__(self, folder: Path, *, redact: Redactor | None = None) -> None:
        self.folder = folder
        self.redact = redact

    def put(self, data: bytes) -> str:
        """Store; the digest of what was stored, which is its name.

        Raises:
            RecordError: it could not be written.
        """
        kept = self.redact.data(data) if self.redact else data
        name = sha256_hex(kept)
        target = self.folder / name
        if target.exists():
            return name
        try:
            self.folder.mkdir(exist_ok=True)
            write_atomic(target, kept)
        except OSError as error:
            msg = f"cannot write {target}: {error.strerror or error}"
            raise RecordError(msg) from error
        return name

    def get(self, name: str) -> bytes:
        """Read back, checked against its name.

        Raises:
            RecordError: missing, or not what it was.
        """
        target = self.folder / Path(name).name
        try:
            data = target.read_bytes()
        except OSError as error:
            msg = f"cannot read {target}: {error.strerror or error}"
            raise RecordError(msg) from error
        if sha256_hex(data) != name:
            msg = f"{target}: the content is not what its name says"
            raise RecordError(msg)
        return data


def excerpt(data: bytes | Stream, *, store: BlobStore | None = None, limit: int = LIMIT) -> Excerpt:
    """The first and last half of `limit` bytes of an output, with digest and length of the whole.

    With a store, what is longer is kept there in full (or as much of it as the stream kept). Secrets are replaced before
    anything is cut, so that no part of one remains at an edge. `sha256` and `total_bytes` are those of the original.
    """
    stream = data if isinstance(data, Stream) else Stream(head=data, total_bytes=len(data), sha256=sha256_hex(data))
    head, tail = _clean(stream, store.redact if store else None)
    dropped = stream.dropped_bytes
    length = len(head) + len(tail)
    whole = Stream(head, tail, length + dropped).kept
    if length > limit:
        half = limit // 2
        last = tail or head
        front, back = _whole_end(head[:half]), _whole_start(last[len(last) - half :])
        shown = Stream(front, back, length + dropped).kept
    else:
        shown = whole
    encoding: Literal["utf-8", "base64"] = "utf-8"
    try:
        text = shown.decode()
    except UnicodeDecodeError:
        text, encoding = base64.b64encode(shown).decode(), "base64"
    return Excerpt(
        text=text,
        encoding=encoding,
        total_bytes=stream.total_bytes,
        sha256=stream.sha256,
        truncated=dropped > 0 or length > limit,
        blob=store.put(whole) if store and length > limit else None,
    )


def _clean(stream: Stream, redact: Redactor | None) -> tuple[bytes, bytes]:
    """The two ends of a stream without secrets; all of it in the first when nothing was dropped."""
    if not stream.dropped_bytes:
        whole = stream.head + stream.tail
        return (redact.data(whole) if redact else whole), b""
    head, tail = _whole_end(stream.head), _whole_start(stream.tail)
    if redact:
        head, tail = redact.cut_end(redact.data(head)), redact.cut_start(redact.data(tail))
    return head, tail


def _whole_end(data: bytes) -> bytes:
    """`data` without the beginning of a UTF-8 character whose rest was cut off."""
    for back in range(1, min(len(data), 3) + 1):
        if not _continues(data[-back]):
            needs = next((length for lead, length in _LEADS if data[-back] >= lead), 1)
            return data[:-back] if needs > back else data
    return data


def _whole_start(data: bytes) -> bytes:
    """`data` without the end of a UTF-8 character whose beginning was cut off."""
    start = 0
    while start < min(len(data), 3) and _continues(data[start]):
        start += 1
    return data[start:]


def _continues(byte: int) -> bool:
    """Whether a byte goes on with a UTF-8 character rather than begins one."""
    return byte >> 6 == 0b10
