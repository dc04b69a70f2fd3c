"""What a patch says about one file."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import StrEnum

from agentbench.core.command import MIB
from agentbench.workspace.diff.hunks import ADD, REMOVE, Hunk

REGULAR, EXECUTABLE, SYMLINK = 0o100644, 0o100755, 0o120000


class Op(StrEnum):
    MODIFY = "modify"
    ADD = "add"
    DELETE = "delete"
    RENAME = "rename"
    COPY = "copy"


@dataclass(frozen=True, slots=True)
class PatchLimits:
    """Bounds of a patch, checked before anything of that size is made."""

    patch_bytes: int = 64 * MIB
    lines: int = 1_000_000
    files: int = 20_000
    file_bytes: int = 64 * MIB
    """Of one file as the patch makes it."""
    total_bytes: int = 256 * MIB
    """Of all files as the patch makes them."""


@dataclass(frozen=True, slots=True)
class Binary:
    """Content of a binary change: all of it, or a delta against the old content."""

    delta: bool
    data: bytes


@dataclass(frozen=True, slots=True)
class FilePatch:
    """One file of a patch. `old_path` and `new_path` differ for renames and copies and are equal otherwise."""

    op: Op
    old_path: bytes
    new_path: bytes
    old_mode: int | None
    new_mode: int | None
    hunks: tuple[Hunk, ...]
    binary: Binary | None
    old_blob: str | None
    new_blob: str | None
    at: int
    """Line of the patch where it starts."""
    may_create: bool = False
    """A plain diff whose only hunk has no old lines: it may mean a new file."""

    @property
    def path(self) -> bytes:
        """The path to speak of: the new one, or the one that goes."""
        return self.new_path

    @property
    def added(self) -> int:
        return sum(mark == ADD for hunk in self.hunks for mark, _ in hunk.lines)

    @property
    def removed(self) -> int:
        return sum(mark == REMOVE for hunk in self.hunks for mark, _ in hunk.lines)

    def added_lines(self) -> Iterator[tuple[int, bytes]]:
        """Every added line with its number in the new file."""
        for hunk in self.hunks:
            number = hunk.new_start if hunk.new_count else hunk.new_start + 1
            for mark, text in hunk.lines:
                if mark == ADD:
                    yield number, text
                if mark != REMOVE:
                    number += 1


def changed_paths(patches: Iterable[FilePatch]) -> tuple[bytes, ...]:
    """Every path that is different afterwards, sorted: written, deleted, or moved away."""
    paths: set[bytes] = set()
    for patch in patches:
        paths.add(patch.new_path)
        if patch.op is Op.RENAME:
            paths.add(patch.old_path)
    return tuple(sorted(paths))
