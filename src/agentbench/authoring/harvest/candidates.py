"""Choose the commits of a history that may become tasks, without running anything."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from agentbench.authoring.commit.split import UnsuitableCommit, is_test, split, text_of
from agentbench.workspace.source.history import Commit

_REVERTS = re.compile(r"(?i)this reverts commit ([0-9a-f]{7,40})")


@dataclass(frozen=True, slots=True)
class Candidates:
    """Commits worth a run, and how many others were skipped, by reason."""

    commits: tuple[Commit, ...]
    passed_over: Counter[str]


def choose(history: Sequence[Commit], patch: Callable[[Commit, Sequence[bytes]], bytes]) -> Candidates:
    """Choose the commits worth a run, newest first, without reverted fixes and without copies from other branches.

    `patch` returns what a commit changes at some paths. It is called only to compare commits with equal subjects and
    files.
    """
    reverted = [match[1] for commit in history for match in _REVERTS.finditer(commit.message)]
    chosen: list[Commit] = []
    by_key: dict[tuple[object, ...], list[Commit]] = {}
    passed_over: Counter[str] = Counter()
    for commit in history:
        reason = _reason(commit, reverted)
        key = _key(commit)
        similar = by_key.get(key, ())
        if reason is None and any(_added_tests(commit, patch) == _added_tests(other, patch) for other in similar):
            reason = "duplicate"
        if reason is None:
            by_key.setdefault(key, []).append(commit)
            chosen.append(commit)
        else:
            passed_over[reason] += 1
    return Candidates(tuple(chosen), passed_over)


def _reason(commit: Commit, reverted: Sequence[str]) -> str | None:
    if _REVERTS.search(commit.message) or commit.subject.lower().startswith('revert "'):
        return "revert"
    if any(commit.id.startswith(name) for name in reverted):
        return "reverted later"
    try:
        split(commit)
    except UnsuitableCommit as error:
        return error.kind
    return None


def _key(commit: Commit) -> tuple[object, ...]:
    """Return a key that a commit shares with its copies on other branches: subject and files."""
    return (commit.subject, *sorted(text_of(change.path) for change in commit.changes))


def _added_tests(commit: Commit, patch: Callable[[Commit, Sequence[bytes]], bytes]) -> list[bytes]:
    """Return the lines that a commit adds to tests. Copies on other branches add the same; namesakes do not."""
    paths = [change.path for change in commit.changes if is_test(text_of(change.path))]
    return [line for line in patch(commit, paths).splitlines() if line[:1] == b"+" and line[:3] != b"+++"]
