"""Which paths an agent may read and which it may change, by the contract's globs (gitwildmatch)."""

from __future__ import annotations

import functools
from collections.abc import Iterable

from agentbench.workspace.diff.compare import Globs


@functools.lru_cache(maxsize=256)
def _globs(patterns: tuple[str, ...]) -> Globs:
    return Globs(patterns)


def matches(patterns: tuple[str, ...], path: bytes) -> bool:
    """Whether the patterns match; they are compiled once."""
    return _globs(patterns).match(path)


class Scope:
    """No editable globs: everything may be changed. No readable globs: everything may be read."""

    def __init__(
        self, *, editable: tuple[str, ...] = (), readable: tuple[str, ...] = (), allow_write: bool = True
    ) -> None:
        self.editable = editable
        self.readable = readable
        self.allow_write = allow_write

    def may_read(self, path: bytes) -> bool:
        return not self.readable or matches(self.readable, path)

    def may_change(self, path: bytes) -> bool:
        return self.allow_write and (not self.editable or matches(self.editable, path))

    def outside(self, paths: Iterable[bytes]) -> tuple[bytes, ...]:
        """Those of `paths` that may not be changed."""
        return tuple(path for path in paths if not self.may_change(path))

    def described(self) -> str:
        if not self.allow_write:
            return "no file may be changed"
        return ", ".join(self.editable) if self.editable else "every file"
