"""A tree as it would be after some writes, without writing them."""

from __future__ import annotations

import hashlib
from collections.abc import Container, Iterator, Sequence

from agentbench.tree.entry import Entry, FileWrite, Kind, Tree
from agentbench.tree.limits import TreeTooLarge


class PatchedTree:
    """`base` with `writes` on top. A file that takes the place of a folder hides what was below it."""

    def __init__(self, base: Tree, writes: Sequence[FileWrite]) -> None:
        self._base = base
        self._writes = {write.path: write for write in writes}

    def entries(self) -> Iterator[Entry]:
        added = {path: _entry(write) for path, write in self._writes.items() if not _deletes(write)}
        kept = (entry for entry in self._base.entries() if entry.path not in self._writes)
        merged = [*added.values(), *(entry for entry in kept if not _is_below(entry.path, added))]
        return iter(sorted(merged, key=lambda entry: entry.path))

    def read(self, path: bytes, *, max_bytes: int) -> bytes:
        write = self._writes.get(path)
        if write is None:
            return self._base.read(path, max_bytes=max_bytes)
        if _deletes(write):
            raise FileNotFoundError(path)
        content = _content(write)
        if len(content) > max_bytes:
            msg = f"a file of {len(content)} bytes is more than {max_bytes}"
            raise TreeTooLarge(msg)
        return content


def _is_below(path: bytes, files: Container[bytes]) -> bool:
    """True if one of the files is where a folder of this path would have to be."""
    at = path.find(b"/")
    while at >= 0:
        if path[:at] in files:
            return True
        at = path.find(b"/", at + 1)
    return False


def _deletes(write: FileWrite) -> bool:
    return write.content is None and write.symlink is None


def _content(write: FileWrite) -> bytes:
    return write.symlink if write.symlink is not None else write.content or b""


def _entry(write: FileWrite) -> Entry:
    content = _content(write)
    kind = Kind.FILE if write.symlink is None else Kind.SYMLINK
    executable = write.executable and kind is Kind.FILE
    return Entry(write.path, kind, executable, len(content), hashlib.sha256(content).hexdigest())
