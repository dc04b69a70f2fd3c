"""Deleted and added files that are one file, moved."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace

from agentbench.tree.entry import Kind
from agentbench.workspace.diff.compare import FileChange

SIMILAR = 0.6
_PAIRS = 2_500
"""Comparisons of content that are worth it; beyond that only files with the same content count as moved."""


def exact(changes: Sequence[FileChange]) -> list[FileChange]:
    """With every pair of a deleted and an added file of the same content joined, the one of the same name first."""
    gone: dict[str, list[FileChange]] = defaultdict(list)
    for change in changes:
        if _movable(change) and change.change == "deleted" and change.before is not None:
            gone[change.before.sha256].append(change)
    moved: dict[bytes, FileChange] = {}
    for change in changes:
        if not _movable(change) or change.change != "added" or change.after is None:
            continue
        sources = gone.get(change.after.sha256)
        if sources:
            source = min(sources, key=lambda item: (_name(item.path) != _name(change.path), item.path))
            sources.remove(source)
            moved[change.path] = replace(change, change="renamed", before=source.before)
    return _joined(changes, moved)


def similar(changes: Sequence[FileChange], lines: Mapping[tuple[bytes, bool], Sequence[bytes]]) -> list[FileChange]:
    """With deleted and added texts joined that share most of their lines.

    `lines` has the lines of every text, by (path, True for the new side).
    """
    gone = [change for change in changes if change.change == "deleted" and (change.path, False) in lines]
    come = [change for change in changes if change.change == "added" and (change.path, True) in lines]
    if not gone or not come or len(gone) * len(come) > _PAIRS:
        return list(changes)
    counts = {change.path: Counter(lines[change.path, False]) for change in gone}
    rated: list[tuple[float, bool, bytes, bytes]] = []
    for new in come:
        counted = Counter(lines[new.path, True])
        for old in gone:
            score = _overlap(counts[old.path], counted)
            if score >= SIMILAR:
                rated.append((-score, _name(old.path) != _name(new.path), old.path, new.path))
    by_path = {change.path: change for change in gone}
    moved: dict[bytes, FileChange] = {}
    used: set[bytes] = set()
    for _, _, old_path, new_path in sorted(rated):
        if old_path not in used and new_path not in moved:
            used.add(old_path)
            added = next(change for change in come if change.path == new_path)
            moved[new_path] = replace(added, change="renamed", before=by_path[old_path].before)
    return _joined(changes, moved)


def _joined(changes: Sequence[FileChange], moved: Mapping[bytes, FileChange]) -> list[FileChange]:
    sources = {change.old_path for change in moved.values()}
    kept = [change for change in changes if not (change.change == "deleted" and change.path in sources)]
    return [moved.get(change.path, change) if change.change == "added" else change for change in kept]


def _movable(change: FileChange) -> bool:
    entry = change.after or change.before
    return entry is not None and entry.kind is Kind.FILE and entry.size > 0


def _name(path: bytes) -> bytes:
    return path.rpartition(b"/")[2]


def _overlap(old: Counter[bytes], new: Counter[bytes]) -> float:
    """Share of the larger text, in bytes, that both have."""
    common = sum(len(line) * min(count, new[line]) for line, count in old.items() if line in new)
    larger = max(sum(len(line) * count for line, count in side.items()) for side in (old, new))
    return common / larger if larger else 0.0
