"""One entry of a tree, and what can be read from a tree."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol


class Kind(StrEnum):
    FILE = "file"
    SYMLINK = "symlink"
    SPECIAL = "special"
    """FIFO, socket, device: an entry that exists but has no content we would read."""


@dataclass(frozen=True, slots=True)
class Entry:
    """A file, symlink or special file. Directories are implied by the paths (empty ones are not tracked, as in git).

    `sha256` is over the content of a file or the target of a symlink; empty for a special file.
    """

    path: bytes
    kind: Kind
    executable: bool
    size: int
    sha256: str


@dataclass(frozen=True, slots=True)
class FileWrite:
    """A change to the workspace made by the harness: content, or a deletion when both are None."""

    path: bytes
    content: bytes | None = None
    symlink: bytes | None = None
    executable: bool = False


class Tree(Protocol):
    """A tree that can be listed and read, wherever it is: a folder, an overlay, a container."""

    def entries(self) -> Iterator[Entry]:
        """Every entry below the root, sorted by path. The folder `.git` at the root is not part of it.

        Raises:
            TreeTooLarge: more entries or bytes than the tree's limits allow.
        """
        ...

    def read(self, path: bytes, *, max_bytes: int) -> bytes:
        """Content of a file, or target of a symlink.

        Raises:
            FileNotFoundError, IsADirectoryError, TreeTooLarge (an AgentFault: the tree is the agent's).
        """
        ...
