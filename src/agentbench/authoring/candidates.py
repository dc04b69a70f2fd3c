"""Which commits of a history may become tasks, before anything is run. Pure but for reading the history."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from agentbench.authoring.splitting import Unsuitable, split, text_of
from agentbench.workspace.history import Commit

_REVERTS = re.compile(r"(?i)this reverts commit ([0-9a-f]{7,40})")


@dataclass(frozen=True, slots=True)
class Candidates:
    """`passed_over`: how many commits were left out, by kind of reason."""

    commits: tuple[Commit, ...]
    passed_over: Counter[str]


def choose(history: Sequence[Commit]) -> Candidates:
    """The commits worth a run, newest first. A fix that was reverted, or taken over from another branch, counts once or not."""
    reverted = [match[1] for commit in history for match in _REVERTS.finditer(commit.message)]
    chosen: list[Commit] = []
    seen: set[tuple[object, ...]] = set()
    passed_over: Counter[str] = Counter()
    for commit in history:
        reason = _reason(commit, reverted)
        key = _key(commit)
        if reason is None and key in seen:
            reason = "duplicate"
        if reason is None:
            seen.add(key)
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
    """Equal for a commit and its copy on another branch: the same words about the same test files."""
    return (commit.subject, *sorted(text_of(change.path) for change in commit.changes))
