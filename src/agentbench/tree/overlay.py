"""What the upper layer of an overlay does not hold need not be read again."""

from __future__ import annotations

import os
from bisect import bisect_left
from collections.abc import Container, Iterator, Mapping
from typing import Protocol

from agentbench.tree.beneath import DIRECTORY, open_beneath
from agentbench.tree.entry import Entry


class Shortcut(Protocol):
    """Follows a walk and says what need not be read."""

    def enter(self, path: bytes) -> Iterator[Entry] | None:
        """Enter a folder (b"" is the root).

        None: it has to be walked, and `leave` follows. Otherwise these are all its entries, and it is not walked.
        """
        ...

    def settled(self, path: bytes, name: bytes) -> Entry | None:
        """The entry at `path`, which is not a folder, if it is known without reading."""
        ...

    def leave(self) -> None: ...


class ReadEverything:
    """A plain folder: nothing is known before."""

    def enter(self, path: bytes) -> Iterator[Entry] | None:
        return None

    def settled(self, path: bytes, name: bytes) -> Entry | None:
        return None

    def leave(self) -> None:
        return None


class _Anything:
    """Holds every name: a folder of the upper layer that vanished under us is read in full, never taken as unchanged."""

    def __contains__(self, name: object) -> bool:
        return True


class Lower:
    """The lower layers' entries, for everything that the upper layer (`changed_fd`, negative: empty) does not hold."""

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

    def settled(self, path: bytes, name: bytes) -> Entry | None:
        return None if name in self._upper[-1] else self._known.get(path)

    def leave(self) -> None:
        self._upper.pop()

    def _names(self, path: bytes) -> Container[bytes]:
        try:
            fd = open_beneath(self._root, path, DIRECTORY) if path else os.open(b".", DIRECTORY, dir_fd=self._root)
        except OSError:
            return _Anything()
        try:
            with os.scandir(fd) as names:
                return frozenset(os.fsencode(item.name) for item in names)
        finally:
            os.close(fd)

    def _below(self, path: bytes) -> Iterator[Entry]:
        if self._order is None:
            self._order = sorted(self._known)  # every tree of ours lists in order, so this is a single pass
        start = path + b"/" if path else b""
        index = bisect_left(self._order, start)
        while index < len(self._order) and self._order[index].startswith(start):
            yield self._known[self._order[index]]
            index += 1
