"""How much of an untrusted tree we are willing to look at."""

from __future__ import annotations

from dataclasses import dataclass

from agentbench.core.command import MIB
from agentbench.core.errors import AgentFault


class TreeTooLarge(AgentFault):
    """The tree has more entries, bytes or longer paths than we will look at."""


@dataclass(frozen=True, slots=True)
class TreeLimits:
    """Bounds of one walk. Folders count as entries; bytes are apparent sizes, so a sparse file counts in full."""

    entries: int = 250_000
    bytes: int = 8 * 1024 * MIB
    path_bytes: int = 8192
    """Of one path. Longer than the kernel takes at once, so that what a tool inside could just about make is still seen."""
    all_path_bytes: int = 128 * MIB


class Budget:
    """What one walk has used of its limits so far."""

    def __init__(self, limits: TreeLimits) -> None:
        self._limits = limits
        self._entries = 0
        self._bytes = 0
        self._path_bytes = 0

    def entry(self, path: bytes) -> None:
        """Account for one more entry.

        Raises:
            TreeTooLarge: one too many.
        """
        self._entries += 1
        self._path_bytes += len(path)
        if self._entries > self._limits.entries:
            raise too_large(f"more than {self._limits.entries} entries")
        if len(path) > self._limits.path_bytes:
            raise too_large(f"a path longer than {self._limits.path_bytes} bytes")
        if self._path_bytes > self._limits.all_path_bytes:
            raise too_large(f"more than {self._limits.all_path_bytes} bytes of file names")

    def content(self, size: int) -> None:
        """Account for the content of a file, before it is read.

        Raises:
            TreeTooLarge: more than is left.
        """
        self._bytes += size
        if self._bytes > self._limits.bytes:
            raise too_large(f"more than {self._limits.bytes} bytes of content")


def too_large(what: str) -> TreeTooLarge:
    return TreeTooLarge(f"the tree has {what}")
