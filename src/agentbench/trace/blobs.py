"""Stores large outputs by digest and makes bounded excerpts of them."""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Literal

from agentbench.core.atomic_file import write_atomic
from agentbench.core.canonical import sha256_hex
from agentbench.core.command import Stream
from agentbench.core.errors import RecordError
from agentbench.trace.events import Excerpt
from agentbench.trace.originals import OriginalsWriter, of_output
from agentbench.trace.redaction import Redactor

LIMIT = 4096
"""Longest output that an event contains in full, in bytes."""

REMEMBERED = 32
"""Number of withheld blobs that stay in memory."""

_LEADS = ((0xF0, 4), (0xE0, 3), (0xC0, 2))
"""Smallest first byte of UTF-8 characters with that many bytes."""


class BlobStore:
    """A folder of files named by the SHA-256 of their content. Secrets are redacted before storing.

    If all text is withheld, nothing is written; the last blobs stay in memory, for monitors that look at them.
    """

    def __init__(
        self, folder: Path, *, redact: Redactor | None = None, originals: OriginalsWriter | None = None
    ) -> None:
        self.folder = folder
        self.redact = redact
        self.originals = originals
        self._withheld: dict[str, bytes] = {}

    def put(self, data: bytes) -> str:
        """Store data and return its name, the digest of what was stored.

        Raises:
            RecordError: the file cannot be written.
        """
        redacted = self.redact.data(data) if self.redact else data
        name = sha256_hex(redacted)
        if self.originals is not None and self.originals.withhold:
            self._remember(name, redacted)
            return name
        target = self.folder / name
        if target.exists():
            return name
        try:
            self.folder.mkdir(exist_ok=True)
            write_atomic(target, redacted)
        except OSError as error:
            raise RecordError.of("write", target, error) from error
        return name

    def get(self, name: str) -> bytes:
        """Read a blob and check it against its name.

        Raises:
            RecordError: the blob is missing or was changed.
        """
        if name in self._withheld:
            return self._withheld[name]
        target = self.folder / Path(name).name
        try:
            data = target.read_bytes()
        except OSError as error:
            raise RecordError.of("read", target, error) from error
        if sha256_hex(data) != name:
            raise RecordError(f"{target}: the content does not match its name")
        return data

    def keep_original(self, stream: Stream, *, changed: bool, original: bytes | None = None) -> None:
        """Keep an output whose redaction changed it, or any if text is withheld."""
        if self.originals is not None and (changed or (self.originals.withhold and stream.total_bytes)):
            self.originals.keep(of_output(stream.sha256), stream.kept if original is None else original)

    def _remember(self, name: str, data: bytes) -> None:
        self._withheld[name] = data
        while len(self._withheld) > REMEMBERED:
            self._withheld.pop(next(iter(self._withheld)), None)


def excerpt(
    data: bytes | Stream, *, store: BlobStore | None = None, limit: int = LIMIT, original: bytes | None = None
) -> Excerpt:
    """Return the first and last `limit / 2` bytes of an output, with digest and length of the whole.

    A longer output is also stored in full in `store` (or as much as the stream kept). Secrets are redacted before cutting, so
    that no part of one remains at an edge. `sha256` and `total_bytes` refer to `data`. `original` is the output before the
    caller redacted it, if it did.
    """
    stream = data if isinstance(data, Stream) else Stream.of(data)
    head, tail = _redacted_ends(stream, store.redact if store else None)
    if store is not None and store.originals is not None:
        changed = (head, tail) != _redacted_ends(stream, None) or original not in {None, stream.kept}
        store.keep_original(stream, changed=changed, original=original)
    dropped = stream.dropped_bytes
    length = len(head) + len(tail)
    whole = Stream(head, tail, length + dropped).kept
    if length > limit:
        half = limit // 2
        last = tail or head
        front, back = _trim_end(head[:half]), _trim_start(last[len(last) - half :])
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


def _redacted_ends(stream: Stream, redact: Redactor | None) -> tuple[bytes, bytes]:
    """Return both ends of a stream without secrets; all of it in the first if nothing was dropped."""
    if not stream.dropped_bytes:
        whole = stream.head + stream.tail
        return (redact.data(whole) if redact else whole), b""
    head, tail = _trim_end(stream.head), _trim_start(stream.tail)
    if redact:
        head, tail = redact.cut_end(redact.data(head)), redact.cut_start(redact.data(tail))
    return head, tail


def _trim_end(data: bytes) -> bytes:
    """Remove an incomplete UTF-8 character at the end."""
    for back in range(1, min(len(data), 3) + 1):
        if not _continues(data[-back]):
            needs = next((length for lead, length in _LEADS if data[-back] >= lead), 1)
            return data[:-back] if needs > back else data
    return data


def _trim_start(data: bytes) -> bytes:
    """Remove an incomplete UTF-8 character at the start."""
    start = 0
    while start < min(len(data), 3) and _continues(data[start]):
        start += 1
    return data[start:]


def _continues(byte: int) -> bool:
    """Return whether a byte continues a UTF-8 character."""
    return byte >> 6 == 0b10
