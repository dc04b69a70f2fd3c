"""Δ: what an agent made of the workspace, as a patch that anybody can apply.

Computed from the content of the two trees alone. Ignore rules, attributes, an index or a `.git` that the agent wrote have
no say in it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, replace

from agentbench.core.command import MIB
from agentbench.core.errors import TaskError, WorkspaceError
from agentbench.tree.entry import Entry, Kind, Tree
from agentbench.tree.limits import TreeTooLarge
from agentbench.workspace.diff.compare import FileChange, Globs, Refused, compare, representable, without
from agentbench.workspace.diff.line_diff import split_lines
from agentbench.workspace.diff.paths import shown, target_problem
from agentbench.workspace.diff.renames import exact, similar
from agentbench.workspace.diff.render import Renderer, is_text

__all__ = ["Delta", "DeltaLimits", "FileChange", "Refused", "compare", "extract"]


@dataclass(frozen=True, slots=True)
class DeltaLimits:
    """Bounds of a Δ that can be graded, checked before any content is loaded."""

    files: int = 10_000
    file_bytes: int = 32 * MIB
    total_bytes: int = 96 * MIB
    """Old and new content of all changed files."""
    patch_bytes: int = 48 * MIB
    patch_lines: int = 800_000
    text_bytes: int = 4 * MIB
    """A longer text is carried as binary: nobody reads its lines, and the patch stays small when it is deleted."""


@dataclass(frozen=True, slots=True)
class Delta:
    """Δ. With a `problem` there is no patch: Δ is known by its files but cannot be graded."""

    patch: bytes
    files: tuple[FileChange, ...]
    generated: tuple[FileChange, ...]
    """What `generated` globs match: evidence, outside counts and patch."""
    refused: tuple[Refused, ...]
    """What no patch can carry, left out with a reason."""
    added: int
    removed: int
    problem: str | None = None

    @property
    def sha256(self) -> str:
        return hashlib.sha256(self.patch).hexdigest()


def extract(base: Tree, after: Tree, *, generated: Sequence[str] = (), limits: DeltaLimits | None = None) -> Delta:
    """What has to be done to `base` to get `after`.

    Raises:
        TaskError: the base itself is larger than we look at.
        WorkspaceError: a tree could not be read, by our own fault.
    """
    limits = limits or DeltaLimits()
    try:
        before = list(base.entries())
    except TreeTooLarge as error:
        raise TaskError(f"the workspace of the task is too large: {error}") from error
    try:
        changes = compare(before, after.entries())
    except TreeTooLarge as error:
        return Delta(b"", (), (), (), 0, 0, f"the workspace cannot be compared: {error}")
    globs = Globs(generated)
    aside = tuple(replace(change, generated=True) for change in changes if globs.match(change.path))
    kept, refused = representable(change for change in changes if not globs.match(change.path))
    work = _Extraction(base, after, limits)
    try:
        files, patch = work.run(exact(kept), refused)
    except TreeTooLarge as error:
        return Delta(b"", tuple(kept), aside, tuple(refused), 0, 0, str(error))
    added, removed = sum(change.added for change in files), sum(change.removed for change in files)
    return Delta(patch, tuple(files), aside, tuple(refused), added, removed)


class _Extraction:
    """Loads what changed, within the limits, and writes it down."""

    def __init__(self, base: Tree, after: Tree, limits: DeltaLimits) -> None:
        self._base = base
        self._after = after
        self._limits = limits

    def run(self, changes: list[FileChange], refused: list[Refused]) -> tuple[list[FileChange], bytes]:
        """
        Raises:
            TreeTooLarge: Δ is beyond the limits; the message says which.
        """
        self._check(changes)
        contents = {change.path: self._contents(change) for change in changes}
        changes = self._links(changes, contents, refused)
        texts = {change.path: self._is_text(change, *contents[change.path]) for change in changes}
        lines = {
            (change.path, change.after is not None): split_lines(b"".join(contents[change.path]))
            for change in changes
            if change.change in {"added", "deleted"} and texts[change.path] and _is_file(change)
        }
        moved = similar(changes, lines)
        for change in moved:
            if change.change == "renamed" and change.before is not None and change.old_path in contents:
                contents[change.path] = (contents[change.old_path][0], contents[change.path][1])
        return self._render(moved, contents, texts)

    def _check(self, changes: Sequence[FileChange]) -> None:
        if len(changes) > self._limits.files:
            raise TreeTooLarge(f"Δ has {len(changes)} files, more than {self._limits.files}")
        sizes = [entry.size for change in changes for entry in (change.before, change.after) if entry is not None]
        if max(sizes, default=0) > self._limits.file_bytes:
            raise TreeTooLarge(f"Δ has a file of {max(sizes)} bytes, more than {self._limits.file_bytes}")
        if sum(sizes) > self._limits.total_bytes:
            raise TreeTooLarge(f"Δ has {sum(sizes)} bytes of content, more than {self._limits.total_bytes}")

    def _contents(self, change: FileChange) -> tuple[bytes, bytes]:
        old, new = _read(self._base, change.before), _read(self._after, change.after)
        if old is None:
            raise WorkspaceError(f"the base of Δ was changed: {shown(change.path)} is not what it was")
        if new is None:
            # A tree that moves while it is read cannot be told from a hostile one.
            raise TreeTooLarge(f"Δ cannot be taken: {shown(change.path)} changed while it was read")
        return old, new

    def _links(
        self, changes: list[FileChange], contents: dict[bytes, tuple[bytes, bytes]], refused: list[Refused]
    ) -> list[FileChange]:
        kept: list[FileChange] = []
        for change in changes:
            why = None
            if change.after is not None and change.after.kind is Kind.SYMLINK:
                why = target_problem(change.path, contents[change.path][1])
            if why is None:
                kept.append(change)
            else:
                refused.append(Refused(change.path, f"a symlink: {why}"))
                contents[change.path] = (contents[change.path][0], b"")
                kept += without(change)
        return kept

    def _is_text(self, change: FileChange, old: bytes, new: bytes) -> bool:
        limit = self._limits.text_bytes
        sides = ((change.before, old), (change.after, new))
        return all(entry is None or is_text(content, entry.kind, limit) for entry, content in sides)

    def _render(
        self, changes: list[FileChange], contents: dict[bytes, tuple[bytes, bytes]], texts: dict[bytes, bool]
    ) -> tuple[list[FileChange], bytes]:
        renderer = Renderer()
        parts: list[bytes] = []
        done: list[FileChange] = []
        size = lines = 0
        for change in changes:
            old, new = contents[change.path]
            binary = not texts[change.path]
            part, added, removed = renderer.entry(change, old, new, binary=binary)
            size += len(part)
            lines += part.count(b"\n")
            if size > self._limits.patch_bytes or lines > self._limits.patch_lines:
                raise TreeTooLarge(
                    f"Δ as a patch has more than {self._limits.patch_bytes} bytes or {self._limits.patch_lines} lines"
                )
            parts.append(part)
            done.append(replace(change, binary=binary, added=added, removed=removed))
        return done, b"".join(parts)


def _is_file(change: FileChange) -> bool:
    entry = change.after or change.before
    return entry is not None and entry.kind is Kind.FILE


def _read(tree: Tree, entry: Entry | None) -> bytes | None:
    """Content as the entry described it; None when it is no longer that."""
    if entry is None:
        return b""
    try:
        content = tree.read(entry.path, max_bytes=entry.size)
    except (FileNotFoundError, IsADirectoryError, NotADirectoryError, PermissionError, TreeTooLarge):
        return None
    return content if hashlib.sha256(content).hexdigest() == entry.sha256 else None
