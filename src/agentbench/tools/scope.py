"""Which paths an agent may read and which it may change, by the contract's globs (gitwildmatch)."""

from __future__ import annotations

import functools
from collections.abc import Iterable

import pathspec


@functools.lru_cache(maxsize=256)
def _spec(globs: tuple[str, ...]) -> pathspec.GitIgnoreSpec:
    return pathspec.GitIgnoreSpec.from_lines(globs)


def matches(globs: tuple[str, ...], path: bytes) -> bool:
    """Whether any of `globs` matches; names that are not UTF-8 are matched as the file system gives them."""
    return bool(globs) and _spec(globs).match_file(path.decode("utf-8", "surrogateescape"))


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
