"""Compares two trees: changed entries, renames, and entries that a patch cannot represent. Reads no files."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Literal

from pathspec import GitIgnoreSpec

from agentbench.core.dataclass import dataclass
from agentbench.tree.entry import Entry, Kind
from agentbench.workspace.diff.paths import path_problem

ChangeKind = Literal["added", "modified", "deleted", "renamed", "mode"]
_GIT_PART = re.compile(rb"(?:.*?/)?\.git(?=/|$)", re.IGNORECASE | re.DOTALL)
_MIN_SIMILARITY = 0.6
_MAX_PAIRS = 2_500
"""Highest number of content comparisons. Beyond it only files with identical content count as renamed."""


@dataclass(frozen=True, slots=True)
class FileChange:
    """One file that differs. `before` is None for an added file, `after` for a deleted one."""

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
        """The former path of a renamed file."""
        return self.before.path if self.change == "renamed" and self.before is not None else None

    @property
    def before_mode(self) -> str | None:
        return None if self.before is None else git_mode(self.before)

    @property
    def after_mode(self) -> str | None:
        return None if self.after is None else git_mode(self.after)

    @property
    def size(self) -> int:
        return 0 if self.after is None else self.after.size


@dataclass(frozen=True, slots=True)
class ExcludedEntry:
    """An entry that no patch can represent, and why. The patch does not contain it; a file it replaced is deleted."""

    path: bytes
    reason: str
    entries: int = 1


def git_mode(entry: Entry) -> str:
    """Return the mode as git writes it. Special files have none and get `000000`."""
    if entry.kind is Kind.SYMLINK:
        return "120000"
    if entry.kind is Kind.SPECIAL:
        return "000000"
    return "100755" if entry.executable else "100644"


class Globs:
    """Matches paths against gitwildmatch patterns."""

    def __init__(self, patterns: Sequence[str]) -> None:
        self._spec = GitIgnoreSpec.from_lines(patterns) if patterns else None

    def match(self, path: bytes) -> bool:
        if self._spec is None:
            return False
        # The patterns' `.` does not match a newline, and a newline in a name must not prevent a match.
        return self._spec.match_file(path.decode("utf-8", "surrogateescape").replace("\n", "\x1f"))


def compare(before: Iterable[Entry], after: Iterable[Entry]) -> tuple[FileChange, ...]:
    """Return every entry that differs, sorted by path. A rename appears as a deletion and an addition."""
    remaining = {entry.path: entry for entry in before}
    changes: list[FileChange] = []
    for entry in after:
        old = remaining.pop(entry.path, None)
        if old is None:
            changes.append(FileChange(entry.path, "added", None, entry))
        elif old is not entry and (old.sha256, old.kind, old.executable) != (
            entry.sha256,
            entry.kind,
            entry.executable,
        ):
            only_mode = old.sha256 == entry.sha256 and old.kind is entry.kind
            changes.append(FileChange(entry.path, "mode" if only_mode else "modified", old, entry))
    changes += (FileChange(entry.path, "deleted", entry, None) for entry in remaining.values())
    return tuple(sorted(changes, key=lambda change: change.path))


def split_representable(changes: Iterable[FileChange]) -> tuple[list[FileChange], list[ExcludedEntry]]:
    """Separate the changes that a patch can represent, judged by name and kind, from the entries it cannot."""
    kept: list[FileChange] = []
    excluded: dict[bytes, ExcludedEntry] = {}
    for change in changes:
        path, problem = change.path, path_problem(change.path)
        if problem is not None:
            inside = _GIT_PART.match(path)
            path = inside[0] if inside else path
            known = excluded.get(path)
            excluded[path] = ExcludedEntry(path, problem, known.entries + 1 if known else 1)
        elif change.after is not None and change.after.kind is Kind.SPECIAL:
            excluded[path] = ExcludedEntry(path, "neither a readable file nor a symlink")
            kept += deletion_of(change)
        else:
            kept.append(change)
    return kept, list(excluded.values())


def deletion_of(change: FileChange) -> list[FileChange]:
    """Return the deletion of what was there before the change. Empty if there was nothing that a patch can delete."""
    if change.before is None or change.before.kind is Kind.SPECIAL:
        return []
    return [FileChange(change.path, "deleted", change.before, None)]


def pair_identical(changes: Sequence[FileChange]) -> list[FileChange]:
    """Turn deleted and added files with the same content into renames, preferring files with the same name."""
    deleted: dict[str, list[FileChange]] = defaultdict(list)
    for change in changes:
        if _can_be_renamed(change) and change.change == "deleted" and change.before is not None:
            deleted[change.before.sha256].append(change)
    renames: dict[bytes, FileChange] = {}
    for change in changes:
        if not _can_be_renamed(change) or change.change != "added" or change.after is None:
            continue
        sources = deleted.get(change.after.sha256)
        if sources:
            source = min(sources, key=lambda item: (_name(item.path) != _name(change.path), item.path))
            sources.remove(source)
            renames[change.path] = replace(change, change="renamed", before=source.before)
    return _with_renames(changes, renames)


def pair_similar(
    changes: Sequence[FileChange], lines: Mapping[tuple[bytes, bool], Sequence[bytes]]
) -> list[FileChange]:
    """Turn deleted and added texts that share most of their lines into renames.

    `lines` has the lines of every text, by (path, True for the new side).
    """
    deleted = {
        change.path: change for change in changes if change.change == "deleted" and (change.path, False) in lines
    }
    added = {change.path: change for change in changes if change.change == "added" and (change.path, True) in lines}
    if not deleted or not added or len(deleted) * len(added) > _MAX_PAIRS:
        return list(changes)
    old_counts = {path: Counter(lines[path, False]) for path in deleted}
    candidates: list[tuple[float, bool, bytes, bytes]] = []
    for new_path in added:
        new_count = Counter(lines[new_path, True])
        for old_path, old_count in old_counts.items():
            similarity = _similarity(old_count, new_count)
            if similarity >= _MIN_SIMILARITY:
                candidates.append((-similarity, _name(old_path) != _name(new_path), old_path, new_path))
    renames: dict[bytes, FileChange] = {}
    used: set[bytes] = set()
    for _, _, old_path, new_path in sorted(candidates):
        if old_path not in used and new_path not in renames:
            used.add(old_path)
            renames[new_path] = replace(added[new_path], change="renamed", before=deleted[old_path].before)
    return _with_renames(changes, renames)


def _with_renames(changes: Sequence[FileChange], renames: Mapping[bytes, FileChange]) -> list[FileChange]:
    sources = {change.old_path for change in renames.values()}
    kept = [change for change in changes if not (change.change == "deleted" and change.path in sources)]
    return [renames.get(change.path, change) if change.change == "added" else change for change in kept]


def _can_be_renamed(change: FileChange) -> bool:
    entry = change.after or change.before
    return entry is not None and entry.kind is Kind.FILE and entry.size > 0


def _name(path: bytes) -> bytes:
    return path.rpartition(b"/")[2]


def _similarity(old: Counter[bytes], new: Counter[bytes]) -> float:
    """Return the share of the larger text, in bytes, that both texts have."""
    common = sum(len(line) * min(count, new[line]) for line, count in old.items() if line in new)
    larger = max(sum(len(line) * count for line, count in side.items()) for side in (old, new))
    return common / larger if larger else 0.0
