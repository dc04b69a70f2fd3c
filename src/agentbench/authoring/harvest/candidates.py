"""Which commits of a history may become tasks, before anything is run. Pure but for reading the history."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from agentbench.authoring.commit.split import Unsuitable, is_test, split, text_of
from agentbench.workspace.source.history import Commit

_REVERTS = re.compile(r"(?i)this reverts commit ([0-9a-f]{7,40})")


@dataclass(frozen=True, slots=True)
class Candidates:
    """`passed_over`: how many commits were left out, by kind of reason."""

    commits: tuple[Commit, ...]
    passed_over: Counter[str]


def choose(history: Sequence[Commit], patch: Callable[[Commit, Sequence[bytes]], bytes]) -> Candidates:
    """The commits worth a run, newest first. A fix that was reverted, or taken over from another branch, counts once or not.

    `patch`: what a commit changed at some paths; asked for where words and files are the same.
    """
    reverted = [match[1] for commit in history for match in _REVERTS.finditer(commit.message)]
    chosen: list[Commit] = []
    seen: dict[tuple[object, ...], list[Commit]] = {}
    passed_over: Counter[str] = Counter()
    for commit in history:
        reason = _reason(commit, reverted)
        key = _key(commit)
        if reason is None and any(_tested(commit, patch) == _tested(other, patch) for other in seen.get(key, ())):
            reason = "duplicate"
        if reason is None:
            seen.setdefault(key, []).append(commit)
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
    except Unsuitable as error:
        return error.kind
    return None


def _key(commit: Commit) -> tuple[object, ...]:
    """Equal for a commit and its copy on another branch: the same words about the same files."""
    return (commit.subject, *sorted(text_of(change.path) for change in commit.changes))


def _tested(commit: Commit, patch: Callable[[Commit, Sequence[bytes]], bytes]) -> list[bytes]:
    """What a commit adds to tests: a copy on another branch keeps that. Many commits are only called the same."""
    paths = [change.path for change in commit.changes if is_test(text_of(change.path))]
    return [line for line in patch(commit, paths).splitlines() if line[:1] == b"+" and line[:3] != b"+++"]
