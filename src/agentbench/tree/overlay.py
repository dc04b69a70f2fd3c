"""Shortcuts for walking overlays: entries that the upper layer does not contain need not be read again."""

from __future__ import annotations

import os
from bisect import bisect_left
from collections.abc import Container, Iterator, Mapping
from typing import Protocol

from agentbench.tree.beneath import DIRECTORY, open_beneath
from agentbench.tree.entry import Entry

MAX_DEPTH = 64
"""Deeper folders are read in full. Opening each of them from the root would take quadratic time, which programs could use up."""


class Shortcut(Protocol):
    """Tells a walk which entries are known without reading them."""

    def enter(self, path: bytes) -> Iterator[Entry] | None:
        """Enter a folder (b"" is the root).

        Returns all its entries if they are known. None: the folder must be walked, and `leave` follows.
        """
        ...

    def known_entry(self, path: bytes, name: bytes) -> Entry | None:
        """Return the entry at `path`, which is not a folder, if it is known."""
        ...

    def leave(self) -> None: ...


class NoShortcut:
    """For plain folders: nothing is known."""

    def enter(self, path: bytes) -> Iterator[Entry] | None:
        return None

    def known_entry(self, path: bytes, name: bytes) -> Entry | None:
        return None

    def leave(self) -> None:
        return None


class _AllNames:
    """Contains every name: the names of a folder that is very deep, or vanished meanwhile. It is read in full."""

    def __contains__(self, name: object) -> bool:
        return True


class LowerLayers:
    """Entries of the lower layers, for everything that the upper layer (`changed_fd`; negative: empty) does not contain."""

    def __init__(self, known: Mapping[bytes, Entry], changed_fd: int) -> None:
        self._known = known
        self._order: list[bytes] | None = None
        self._root = changed_fd
        self._upper: list[Container[bytes]] = []

    def enter(self, path: bytes) -> Iterator[Entry] | None:
        if self._root < 0 or (path and path.rpartition(b"/")[2] not in self._upper[-1]):
            return self._below(path)
        self._upper.append(self._names(path))
        return None

    def known_entry(self, path: bytes, name: bytes) -> Entry | None:
        return None if name in self._upper[-1] else self._known.get(path)

    def leave(self) -> None:
        self._upper.pop()

    def _names(self, path: bytes) -> Container[bytes]:
        if path.count(b"/") >= MAX_DEPTH:
            return _AllNames()
        try:
            fd = open_beneath(self._root, path, DIRECTORY) if path else os.open(b".", DIRECTORY, dir_fd=self._root)
        except OSError:
            return _AllNames()
        try:
            with os.scandir(fd) as names:
                return frozenset(os.fsencode(item.name) for item in names)
        finally:
            os.close(fd)

    def _below(self, path: bytes) -> Iterator[Entry]:
        if self._order is None:
            self._order = sorted(self._known)  # usually sorted already
        start = path + b"/" if path else b""
        index = bisect_left(self._order, start)
        while index < len(self._order) and self._order[index].startswith(start):
            yield self._known[self._order[index]]
            index += 1
