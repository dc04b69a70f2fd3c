"""The model of a parsed patch: one entry per file, with its hunks or binary content."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from enum import StrEnum

from agentbench.core.command import MIB
from agentbench.core.dataclass import dataclass

REGULAR, EXECUTABLE, SYMLINK = 0o100644, 0o100755, 0o120000
CONTEXT, ADD, REMOVE = b" ", b"+", b"-"


class Op(StrEnum):
    MODIFY = "modify"
    ADD = "add"
    DELETE = "delete"
    RENAME = "rename"
    COPY = "copy"


@dataclass(frozen=True, slots=True)
class PatchLimits:
    """Limits for a patch that is parsed and applied, checked before anything of that size is allocated."""

    patch_bytes: int = 64 * MIB
    lines: int = 1_000_000
    files: int = 20_000
    file_bytes: int = 64 * MIB
    """Size of one file after the patch."""
    total_bytes: int = 256 * MIB
    """Size of all files after the patch."""
    entries: int = 200_000
    """Files that it writes and folders above them. A sandbox has room for as many."""


@dataclass(frozen=True, slots=True)
class Hunk:
    """One hunk. A line is (mark, text); the text ends in a newline unless the patch says that it has none."""

    old_start: int
    old_count: int
    new_start: int
    new_count: int
    lines: tuple[tuple[bytes, bytes], ...]
    patch_line: int
    """Line of the patch where the hunk starts."""

    @property
    def position(self) -> int:
        """Number of lines of the file before the hunk. A hunk without old lines follows the line that it names."""
        return self.old_start - 1 if self.old_count else self.old_start

    def trimmed(self, fuzz: int) -> tuple[tuple[tuple[bytes, bytes], ...], int]:
        """Drop up to `fuzz` context lines at each end. Return the rest and the number of lines dropped at the start."""
        lead = _leading_context(self.lines, fuzz)
        tail = _leading_context(self.lines[::-1], fuzz)
        if lead + tail >= len(self.lines):
            return self.lines, 0
        return self.lines[lead : len(self.lines) - tail], lead


def _leading_context(lines: Sequence[tuple[bytes, bytes]], limit: int) -> int:
    count = 0
    while count < min(limit, len(lines)) and lines[count][0] == CONTEXT:
        count += 1
    return count


@dataclass(frozen=True, slots=True)
class BinaryContent:
    """Content of a binary change: the whole file, or a git delta against the old content."""

    is_delta: bool
    data: bytes


@dataclass(frozen=True, slots=True)
class FilePatch:
    """The entry of one file in a patch. `old_path` and `new_path` differ only for renames and copies."""

    op: Op
    old_path: bytes
    new_path: bytes
    old_mode: int | None
    new_mode: int | None
    hunks: tuple[Hunk, ...]
    binary: BinaryContent | None
    old_blob: str | None
    new_blob: str | None
    patch_line: int
    """Line of the patch where the entry starts."""
    may_create: bool = False
    """A plain diff whose only hunk has no old lines may create the file."""

    @property
    def path(self) -> bytes:
        """The path for messages: the new one, or the one that is deleted."""
        return self.new_path

    @property
    def added(self) -> int:
        return sum(mark == ADD for hunk in self.hunks for mark, _ in hunk.lines)

    @property
    def removed(self) -> int:
        return sum(mark == REMOVE for hunk in self.hunks for mark, _ in hunk.lines)

    def added_lines(self) -> Iterator[tuple[int, bytes]]:
        """Yield every added line with its number in the new file."""
        for hunk in self.hunks:
            number = hunk.new_start if hunk.new_count else hunk.new_start + 1
            for mark, text in hunk.lines:
                if mark == ADD:
                    yield number, text
                if mark != REMOVE:
                    number += 1


def changed_paths(patches: Iterable[FilePatch]) -> tuple[bytes, ...]:
    """Return every path that the patch writes, deletes or moves away, sorted."""
    paths: set[bytes] = set()
    for patch in patches:
        paths.add(patch.new_path)
        if patch.op is Op.RENAME:
            paths.add(patch.old_path)
    return tuple(sorted(paths))
