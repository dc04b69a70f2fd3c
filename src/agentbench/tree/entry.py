"""Tree entries, their digest, and the interface of trees."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from enum import StrEnum
from typing import Protocol, runtime_checkable

from agentbench.core.canonical import sha256_hex
from agentbench.core.dataclass import dataclass

_DOMAIN = b"agentbench tree 1\0"


class Kind(StrEnum):
    FILE = "file"
    SYMLINK = "symlink"
    SPECIAL = "special"
    """FIFO, socket, device or unreadable file: an entry without readable content."""


@dataclass(frozen=True, slots=True)
class Entry:
    """A file, symlink or special file. Folders are implied by paths; as in git, empty ones are not tracked.

    `sha256` is the digest of the content or of the symlink target; empty for special files.
    """

    path: bytes
    kind: Kind
    executable: bool
    size: int
    sha256: str


@dataclass(frozen=True, slots=True)
class FileWrite:
    """A write to a tree: content or symlink; a deletion if both are None."""

    path: bytes
    content: bytes | None = None
    symlink: bytes | None = None
    executable: bool = False

    @property
    def data(self) -> bytes | None:
        """Return the content or the symlink target; None for a deletion."""
        return self.content if self.symlink is None else self.symlink

    def entry(self) -> Entry | None:
        """Return the entry that the write makes; None for a deletion."""
        if self.data is None:
            return None
        kind = Kind.FILE if self.symlink is None else Kind.SYMLINK
        executable = self.executable and kind is Kind.FILE
        return Entry(self.path, kind, executable, len(self.data), sha256_hex(self.data))


def tree_digest(entries: Iterable[Entry]) -> str:
    """Return `sha256:…` over kind, executable bit, content and path of every entry, in path order."""
    state = hashlib.sha256(_DOMAIN)
    for entry in sorted(entries, key=lambda entry: entry.path):
        mark = "x" if entry.executable else "-"
        # Paths cannot contain NUL, so the encoding is unambiguous.
        state.update(f"{entry.kind.value} {mark} {entry.sha256} ".encode() + entry.path + b"\0")
    return "sha256:" + state.hexdigest()


class Tree(Protocol):
    """A tree that can be listed and read: a folder, an overlay, a container."""

    def entries(self) -> Iterator[Entry]:
        """Yield every entry, sorted by path, except `.git` at the root.

        Raises:
            TreeTooLarge: the tree exceeds its limits.
        """
        ...

    def read(self, path: bytes, *, max_bytes: int) -> bytes:
        """Return the content of a file or the target of a symlink.

        Raises:
            FileNotFoundError, IsADirectoryError, TreeTooLarge.
        """
        ...


@runtime_checkable
class QuickTree(Protocol):
    """A tree that can be listed again without reading every file."""

    def quick_entries(self) -> Iterator[Entry]:
        """Yield every entry as `Tree.entries` does. Files that seem unchanged since the last call are not read again."""
        ...
