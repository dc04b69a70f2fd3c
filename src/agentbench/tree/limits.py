"""Limits for reading untrusted trees."""

from __future__ import annotations

from agentbench.core.command import MIB
from agentbench.core.dataclass import dataclass
from agentbench.core.errors import AgentFault


class TreeTooLarge(AgentFault):
    """The tree exceeds a limit: entries, bytes or path length."""


@dataclass(frozen=True, slots=True)
class TreeLimits:
    """Limits of one walk. Folders count as entries; sizes are apparent sizes, so sparse files count in full."""

    entries: int = 250_000
    bytes: int = 8 * 1024 * MIB
    path_bytes: int = 8192
    """Longest path. More than PATH_MAX, because programs in a sandbox can create longer paths step by step."""
    all_path_bytes: int = 128 * MIB


class Budget:
    """Counts what one walk has used of its limits."""

    def __init__(self, limits: TreeLimits) -> None:
        self._limits = limits
        self._entries = 0
        self._bytes = 0
        self._path_bytes = 0

    def entry(self, path: bytes) -> None:
        """Count one entry.

        Raises:
            TreeTooLarge: a limit is exceeded.
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
        """Count the content of a file before it is read.

        Raises:
            TreeTooLarge: a limit is exceeded.
        """
        self._bytes += size
        if self._bytes > self._limits.bytes:
            raise too_large(f"more than {self._limits.bytes} bytes of content")


def too_large(excess: str) -> TreeTooLarge:
    return TreeTooLarge(f"the tree has {excess}")
