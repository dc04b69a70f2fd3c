"""Which entries of two trees differ, and what a patch can say about it. Reads no content."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

from pathspec import GitIgnoreSpec

from agentbench.tree.entry import Entry, Kind
from agentbench.workspace.diff.paths import path_problem

ChangeKind = Literal["added", "modified", "deleted", "renamed", "mode"]
_GIT_PART = re.compile(rb"(?:.*?/)?\.git(?=/|$)", re.IGNORECASE | re.DOTALL)


@dataclass(frozen=True, slots=True)
class FileChange:
    """One file that differs. `before` is missing for an added file, `after` for a deleted one."""

    path: bytes
    change: ChangeKind
    before: Entry | None
    after: Entry | None
    binary: bool = False
    generated: bool = False
    added: int = 0
    removed: int = 0

    @property
    def old_path(self) -> bytes | None:
        """Where a renamed file was."""
        return self.before.path if self.change == "renamed" and self.before is not None else None

    @property
    def before_mode(self) -> str | None:
        return None if self.before is None else mode_of(self.before)

    @property
    def after_mode(self) -> str | None:
        return None if self.after is None else mode_of(self.after)

    @property
    def size(self) -> int:
        return 0 if self.after is None else self.after.size


@dataclass(frozen=True, slots=True)
class Refused:
    """An entry that no patch can carry, and why. It is not part of Δ; a file it replaced counts as deleted."""

    path: bytes
    why: str
    entries: int = 1


def mode_of(entry: Entry) -> str:
    """As git writes it; a special file has none."""
    if entry.kind is Kind.SYMLINK:
        return "120000"
    if entry.kind is Kind.SPECIAL:
        return "000000"
    return "100755" if entry.executable else "100644"


class Globs:
    """Paths by gitwildmatch patterns."""

    def __init__(self, patterns: Sequence[str]) -> None:
        self._spec = GitIgnoreSpec.from_lines(patterns) if patterns else None

    def match(self, path: bytes) -> bool:
        if self._spec is None:
            return False
        # The patterns' `.` does not match a newline, and no pattern should depend on whether a name has one.
        return self._spec.match_file(path.decode("utf-8", "surrogateescape").replace("\n", "\x1f"))


def compare(before: Iterable[Entry], after: Iterable[Entry]) -> tuple[FileChange, ...]:
    """Every entry that differs, sorted by path. A move shows as a deletion and an addition."""
    old = {entry.path: entry for entry in before}
    found: list[FileChange] = []
    for entry in after:
        was = old.pop(entry.path, None)
        if was is None:
            found.append(FileChange(entry.path, "added", None, entry))
        elif was is not entry and (was.sha256, was.kind, was.executable) != (
            entry.sha256,
            entry.kind,
            entry.executable,
        ):
            only_mode = was.sha256 == entry.sha256 and was.kind is entry.kind
            found.append(FileChange(entry.path, "mode" if only_mode else "modified", was, entry))
    found += (FileChange(entry.path, "deleted", entry, None) for entry in old.values())
    return tuple(sorted(found, key=lambda change: change.path))


def representable(changes: Iterable[FileChange]) -> tuple[list[FileChange], list[Refused]]:
    """Those that a patch can carry as far as names and kinds say, and the rest with reasons."""
    kept: list[FileChange] = []
    refused: dict[bytes, Refused] = {}
    for change in changes:
        path, why = change.path, path_problem(change.path)
        if why is not None:
            inside = _GIT_PART.match(path)
            path = inside[0] if inside else path
            known = refused.get(path)
            refused[path] = Refused(path, why, known.entries + 1 if known else 1)
            continue
        after = change.after
        if after is not None and after.kind is Kind.SPECIAL:
            refused[path] = Refused(path, "neither a readable file nor a symlink")
            after = None
        kept += without(change) if after is None and change.after is not None else [change]
    return kept, list(refused.values())


def without(change: FileChange) -> list[FileChange]:
    """The change without what is there afterwards: what was there before is deleted, if it was anything."""
    if change.before is None or change.before.kind is Kind.SPECIAL:
        return []
    return [FileChange(change.path, "deleted", change.before, None)]
