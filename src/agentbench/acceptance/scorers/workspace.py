"""The scorers' view of a workspace: the tree before and after, the changes between them, and a way to run commands."""

from __future__ import annotations

import os
import posixpath
from collections.abc import Callable, Mapping, Sequence
from fnmatch import fnmatchcase
from functools import cached_property
from typing import Any, Literal, Protocol

from agentbench.core.command import MIB, Command, Completed
from agentbench.core.dataclass import dataclass
from agentbench.core.errors import AgentFault
from agentbench.tree.entry import Entry, Kind, Tree
from agentbench.workspace.diff.extract import ExtractedPatch
from agentbench.workspace.diff.line_diff import LineDiff, split_lines

MAX_TEXT = 4 * MIB
LISTED = 20
_MAX_LINKS = 16


@dataclass(frozen=True, slots=True)
class ScorerVerdict:
    """Result of one scorer. The first line of `detail` is the reason, further lines are evidence."""

    verdict: Literal["PASS", "FAIL", "N/A", "ERROR"]
    detail: str = ""


@dataclass(frozen=True, slots=True)
class ChangedText:
    """One changed file as lines. A side that does not exist or is not text has no lines."""

    before_path: str | None
    after_path: str | None
    before: tuple[bytes, ...]
    after: tuple[bytes, ...]
    skipped: bool = False
    """Whether the file is binary or too long, so that its lines were not examined."""
    moved: bool = False
    """Whether only the path changed and no line was written."""


class Workspace:
    """The workspace of one attempt after the agent stopped. `run` is None if there is no live sandbox."""

    def __init__(
        self, base: Tree, after: Tree, patch: ExtractedPatch, run: Callable[[Command], Completed] | None
    ) -> None:
        self.run = run
        self._base = base
        self._after = after
        self._patch = patch

    @property
    def unknown(self) -> str:
        """Return why the changes are not known, or an empty string if they are."""
        return self._patch.problem or "" if not self._patch.files else ""

    @cached_property
    def changed(self) -> tuple[str, ...]:
        """Return every changed path, sorted, without generated files. A moved file is listed under both paths."""
        paths = {change.path for change in self._patch.files}
        paths |= {change.old_path for change in self._patch.files if change.old_path is not None}
        paths |= {entry.path for entry in self._patch.excluded}
        return tuple(sorted(os.fsdecode(path) for path in paths))

    @property
    def count(self) -> int:
        """Return the number of changed files. A moved file counts once."""
        known = {change.path for change in self._patch.files}
        return len(known) + sum(entry.entries for entry in self._patch.excluded if entry.path not in known)

    @cached_property
    def paths(self) -> frozenset[str]:
        """Return all existing paths, including folders. Links count only if they lead to something in the workspace."""
        entries = {os.fsdecode(entry.path): entry for entry in self._after.entries()}
        names = set(entries)
        for name in entries:
            while (name := posixpath.dirname(name)) and name not in names:
                names.add(name)
        return frozenset(name for name in names if self._resolves(name, entries, names))

    def read(self, path: str) -> bytes:
        """Return the content of a file, or the target of a link.

        Raises:
            AgentFault, OSError: there is no such file, or it is larger than 4 MiB.
        """
        return self._after.read(os.fsencode(path), max_bytes=MAX_TEXT)

    def _resolves(self, name: str, entries: dict[str, Entry], names: set[str]) -> bool:
        for _ in range(_MAX_LINKS):
            entry = entries.get(name)
            if entry is None or entry.kind is not Kind.SYMLINK:
                return name in names
            target = os.fsdecode(self._after.read(entry.path, max_bytes=MAX_TEXT))
            name = posixpath.normpath(posixpath.join(posixpath.dirname(name), target))
        return False

    @cached_property
    def texts(self) -> tuple[ChangedText, ...]:
        """Return every changed file as lines."""
        return tuple(self._text(change.before, change.after) for change in self._patch.files if change.change != "mode")

    def _text(self, before: Entry | None, after: Entry | None) -> ChangedText:
        old, new = _lines(self._base, before), _lines(self._after, after)
        return ChangedText(
            None if before is None else os.fsdecode(before.path),
            None if after is None else os.fsdecode(after.path),
            old or (),
            new or (),
            skipped=old is None or new is None,
            moved=_same_content(before, after),
        )


class Scorer(Protocol):
    """Scores the workspace that an agent left; the plug-in of kind `scorer`.

    Gets the workspace, and the options of its entry in `scenario.yaml` or `task.yaml`. Its verdict is reported next to the
    checks and never changes whether an attempt passed. An exception becomes the verdict ERROR.

    Examples:
        >>> import agentbench as ab
        >>> def changelog(workspace: ab.Workspace, options: dict[str, object]) -> ab.ScorerVerdict:
        ...     name = str(options.get("file", "CHANGELOG.md"))
        ...     if name in workspace.changed:
        ...         return ab.ScorerVerdict("PASS", f"{name} was changed")
        ...     return ab.ScorerVerdict("FAIL", f"{name} was not changed")
        >>> task = ab.load_suite("demo").tasks[-1]
        >>> (attempt,) = ab.run(task, agent="noop", scorers=[changelog], out="runs").attempts
        >>> [(score.name, str(score.verdict)) for score in attempt.scorers]
        [('changelog', 'FAIL')]
    """

    def __call__(self, workspace: Workspace, options: Mapping[str, Any], /) -> ScorerVerdict: ...


def listing(rows: Sequence[str]) -> str:
    """Return one indented row per line, at most `LISTED` of them."""
    more = [f"… and {len(rows) - LISTED} more"] if len(rows) > LISTED else []
    return "\n".join(f"  {row}" for row in (*rows[:LISTED], *more))


def matches(path: str, patterns: Sequence[str]) -> bool:
    """Match shell patterns against the whole path: `*` also matches slashes."""
    return any(fnmatchcase(path, pattern) for pattern in patterns)


def added_lines(text: ChangedText, diff: LineDiff) -> list[tuple[int, str]]:
    """Return the numbered lines of the new side that the old side does not have."""
    return [
        (index + 1, text.after[index].decode("utf-8", "replace").rstrip("\n"))
        for _i1, _i2, j1, j2 in diff.regions(text.before, text.after)
        for index in range(j1, j2)
    ]


def removed_lines(text: ChangedText, diff: LineDiff) -> list[tuple[int, str]]:
    """Return the numbered lines of the old side that the new side does not have."""
    return [
        (index + 1, text.before[index].decode("utf-8", "replace").rstrip("\n"))
        for i1, i2, _j1, _j2 in diff.regions(text.before, text.after)
        for index in range(i1, i2)
    ]


def _same_content(before: Entry | None, after: Entry | None) -> bool:
    return before is not None and after is not None and before.sha256 == after.sha256


def _lines(tree: Tree, entry: Entry | None) -> tuple[bytes, ...] | None:
    """Return the lines of one side, or None if it exists but cannot be read as text."""
    if entry is None or entry.kind is not Kind.FILE:
        return ()
    if entry.size > MAX_TEXT:
        return None
    try:
        content = tree.read(entry.path, max_bytes=MAX_TEXT)
    except (OSError, AgentFault):
        return None
    return None if b"\x00" in content else tuple(split_lines(content))
