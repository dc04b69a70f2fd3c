"""The workspace of a container, listed and read through the command server."""

from __future__ import annotations

import errno
import functools
from collections.abc import Callable, Iterator, Mapping
from itertools import count

from agentbench.core.errors import AgentBenchError
from agentbench.sandbox.command_channel import ChannelClosed, CommandChannel
from agentbench.sandbox.server.capture import unpack
from agentbench.tree.entry import Entry, Kind
from agentbench.tree.limits import Budget, TreeLimits, too_large

_KINDS = {b"f": Kind.FILE, b"l": Kind.SYMLINK, b"s": Kind.SPECIAL}
_REQUEST_SEC = 600.0
_READ_BYTES = 512 * 1024
_LISTINGS = count(1)
_SHA256_CHARS = 64


class ChannelTree:
    """Implements `tree.entry.Tree`.

    `known` has the entries that the sandbox started from: files that were not touched since are not read again.
    """

    def __init__(
        self,
        channel: CommandChannel,
        root: str,
        *,
        known: Mapping[bytes, Entry] | None = None,
        on_death: Callable[[str], AgentBenchError],
        limits: TreeLimits | None = None,
    ) -> None:
        """`on_death` returns the error for a channel that closed, or whose server cannot be trusted any more."""
        self._channel = channel
        self._root = root.encode("utf-8", "surrogateescape")
        self._known = known
        self._on_death = on_death
        self._limits = limits or TreeLimits()

    def entries(self) -> Iterator[Entry]:
        yield from self._entries(b"changed")

    def quick_entries(self) -> Iterator[Entry]:
        yield from self._entries(b"quick")

    def _entries(self, mode: bytes) -> Iterator[Entry]:
        if self._known is not None:
            try:
                yield from list(self._listing(self._known, mode))
            except _NotKnown:
                pass
            else:
                return
        yield from self._listing(None, b"all")

    def read(self, path: bytes, *, max_bytes: int) -> bytes:
        parts: list[bytes] = []
        size, done = 0, 0
        while True:
            length = min(_READ_BYTES, max_bytes + 1 - done)
            answer = self._ask(b"read", [self._root, path, b"%d" % done, b"%d" % length])
            kind = answer[0]
            if kind == b"link" and len(answer) > 1:
                parts = [answer[1]]
                break
            if kind != b"file":
                raise _refusal(kind, path)
            if len(answer) < 3 or not answer[1].isdigit():
                raise self._invalid_answer()
            size = int(answer[1])
            parts.append(answer[2])
            done += len(answer[2])
            if size > max_bytes or done > max_bytes or len(answer[2]) < length:
                break
        content = b"".join(parts)
        if size > max_bytes or len(content) > max_bytes:
            raise too_large(f"a file of more than {max_bytes} bytes: {path!r}")
        return content

    def _listing(self, known: Mapping[bytes, Entry] | None, mode: bytes) -> Iterator[Entry]:
        budget = Budget(self._limits)
        request = [self._root, b"%d" % next(_LISTINGS), b"%d" % self._limits.bytes, mode]
        before = b""
        while True:
            answer = self._ask(b"walk", request)
            if answer[0] == b"failed":
                # The folder itself was removed or replaced by the sandbox's user: an empty tree.
                return
            for item in unpack(answer[1]):
                try:
                    entry = _entry(_fields(item), known)
                except ValueError:
                    raise self._invalid_answer() from None
                if entry.path <= before and before:
                    raise self._invalid_answer()
                before = entry.path
                budget.entry(entry.path)
                budget.content(entry.size if entry.kind is Kind.FILE else 0)
                yield entry
            if answer[0] == b"large":
                raise too_large(f"more than {self._limits.bytes} bytes of content, or a path that is too long")
            if answer[0] == b"end":
                return

    def _ask(self, request: bytes, fields: list[bytes]) -> list[bytes]:
        try:
            answer = self._channel.ask(request, fields, timeout_sec=_REQUEST_SEC)
        except ChannelClosed as error:
            raise self._on_death(str(error)) from error
        if not answer or (request == b"walk" and len(answer) < 2):
            raise self._invalid_answer()
        return answer

    def _invalid_answer(self) -> AgentBenchError:
        return self._on_death("the command server sent an invalid answer")


class _NotKnown(Exception):
    """The server reports a file as unchanged that is not among the known ones: everything has to be read."""


@functools.lru_cache(maxsize=16_384)
def _fields(item: bytes) -> tuple[bytes, ...]:
    # From one command to the next, most of a listing stays the same.
    return tuple(unpack(item))


def _entry(fields: tuple[bytes, ...], known: Mapping[bytes, Entry] | None) -> Entry:
    path, kind, executable, size, sha256 = fields
    if kind == b"k":
        entry = known.get(path) if known is not None else None
        if entry is None or entry.kind is not Kind.FILE:
            raise _NotKnown
        return entry
    digest = sha256.decode("ascii")
    if kind not in _KINDS or len(digest) not in {0, _SHA256_CHARS}:
        raise ValueError("invalid entry")
    return Entry(path, _KINDS[kind], executable == b"1", int(size), digest)


def _refusal(kind: bytes, path: bytes) -> OSError:
    if kind == b"folder":
        return IsADirectoryError(errno.EISDIR, "is a folder", path)
    if kind == b"through":
        return NotADirectoryError(errno.ENOTDIR, "goes through a symlink or a file", path)
    if kind == b"denied":
        return PermissionError(errno.EACCES, "cannot be read", path)
    return FileNotFoundError(errno.ENOENT, "does not exist, or is not a regular file", path)
