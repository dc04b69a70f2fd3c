"""Extracts the agent's patch by comparing the workspace with the base repository.

Only the content of the two trees counts. Ignore rules, attributes, an index or a `.git` that the agent wrote have no
effect.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import replace

from agentbench.core.command import MIB
from agentbench.core.dataclass import dataclass
from agentbench.core.errors import TaskError, WorkspaceError
from agentbench.tree.entry import Entry, Kind, Tree
from agentbench.tree.limits import TreeTooLarge
from agentbench.workspace.diff.compare import (
    ExcludedEntry,
    FileChange,
    Globs,
    compare,
    deletion_of,
    pair_identical,
    pair_similar,
    split_representable,
)
from agentbench.workspace.diff.line_diff import split_lines
from agentbench.workspace.diff.paths import display_path, target_problem
from agentbench.workspace.diff.render import Renderer, is_text


@dataclass(frozen=True, slots=True)
class ExtractLimits:
    """Limits for a patch that can be graded. Numbers and sizes of files are checked before any content is loaded."""

    files: int = 10_000
    file_bytes: int = 32 * MIB
    total_bytes: int = 96 * MIB
    """Old and new content of all changed files."""
    patch_bytes: int = 48 * MIB
    patch_lines: int = 800_000
    text_bytes: int = 4 * MIB
    """Longer texts are stored as binary content, which keeps the patch small when they are deleted."""


@dataclass(frozen=True, slots=True)
class ExtractedPatch:
    """The agent's patch. With a `problem` the patch is empty and cannot be graded; `files` still lists what changed."""

    patch: bytes
    files: tuple[FileChange, ...]
    generated: tuple[FileChange, ...]
    """Changes that match the `generated` globs: recorded, but neither counted nor part of the patch."""
    excluded: tuple[ExcludedEntry, ...]
    """Entries that no patch can represent."""
    added: int
    removed: int
    problem: str | None = None

    @property
    def sha256(self) -> str:
        return hashlib.sha256(self.patch).hexdigest()


def extract(
    base: Tree, after: Tree, *, generated: Sequence[str] = (), limits: ExtractLimits | None = None
) -> ExtractedPatch:
    """Compute the patch that turns `base` into `after`. Changes that match the `generated` globs are left out.

    Raises:
        TaskError: the base exceeds the limits of a tree.
        WorkspaceError: a tree could not be read because of a harness error.
    """
    limits = limits or ExtractLimits()
    try:
        before = list(base.entries())
    except TreeTooLarge as error:
        raise TaskError(f"the base repository is too large: {error}") from error
    try:
        changes = compare(before, after.entries())
    except TreeTooLarge as error:
        return ExtractedPatch(b"", (), (), (), 0, 0, f"cannot compare the workspace: {error}")
    globs = Globs(generated)
    generated_changes = tuple(replace(change, generated=True) for change in changes if globs.match(change.path))
    kept, excluded = split_representable(change for change in changes if not globs.match(change.path))
    try:
        files, patch = _Extraction(base, after, limits).run(pair_identical(kept), excluded)
    except TreeTooLarge as error:
        return ExtractedPatch(b"", tuple(kept), generated_changes, tuple(excluded), 0, 0, str(error))
    added, removed = sum(change.added for change in files), sum(change.removed for change in files)
    return ExtractedPatch(patch, tuple(files), generated_changes, tuple(excluded), added, removed)


class _Extraction:
    """Loads the changed files, within the limits, and renders the patch."""

    def __init__(self, base: Tree, after: Tree, limits: ExtractLimits) -> None:
        self._base = base
        self._after = after
        self._limits = limits

    def run(self, changes: list[FileChange], excluded: list[ExcludedEntry]) -> tuple[list[FileChange], bytes]:
        """Return the changes with line counts, and the patch. Symlinks with forbidden targets are added to `excluded`.

        Raises:
            TreeTooLarge: the patch exceeds a limit.
        """
        self._check_limits(changes)
        contents = {change.path: self._contents(change) for change in changes}
        changes = self._exclude_links(changes, contents, excluded)
        texts = {change.path: self._is_text(change, *contents[change.path]) for change in changes}
        whole = [
            change
            for change in changes
            if change.change in {"added", "deleted"} and texts[change.path] and _is_file(change)
        ]
        # As objects, lines need many times their bytes. A patch with so many is too large unless most files were moved.
        if sum(side.count(b"\n") for change in whole for side in contents[change.path]) <= self._limits.patch_lines:
            lines = {
                (change.path, change.after is not None): split_lines(b"".join(contents[change.path]))
                for change in whole
            }
            changes = pair_similar(changes, lines)
        for change in changes:
            if change.change == "renamed" and change.before is not None and change.old_path in contents:
                contents[change.path] = (contents[change.old_path][0], contents[change.path][1])
        return self._render(changes, contents, texts)

    def _check_limits(self, changes: Sequence[FileChange]) -> None:
        if len(changes) > self._limits.files:
            raise TreeTooLarge(f"the patch has {len(changes)} files, the limit is {self._limits.files}")
        sizes = [entry.size for change in changes for entry in (change.before, change.after) if entry is not None]
        if max(sizes, default=0) > self._limits.file_bytes:
            raise TreeTooLarge(f"the patch has a file of {max(sizes)} bytes, the limit is {self._limits.file_bytes}")
        if sum(sizes) > self._limits.total_bytes:
            raise TreeTooLarge(f"the patch has {sum(sizes)} bytes of content, the limit is {self._limits.total_bytes}")

    def _contents(self, change: FileChange) -> tuple[bytes, bytes]:
        old, new = _read(self._base, change.before), _read(self._after, change.after)
        if old is None:
            raise WorkspaceError(f"the base repository changed while it was read: {display_path(change.path)}")
        if new is None:
            # The agent may change files on purpose while they are read.
            raise TreeTooLarge(f"cannot extract the patch: {display_path(change.path)} changed while it was read")
        return old, new

    def _exclude_links(
        self, changes: list[FileChange], contents: dict[bytes, tuple[bytes, bytes]], excluded: list[ExcludedEntry]
    ) -> list[FileChange]:
        """Exclude symlinks with targets that a patch may not contain."""
        kept: list[FileChange] = []
        for change in changes:
            problem = None
            if change.after is not None and change.after.kind is Kind.SYMLINK:
                problem = target_problem(change.path, contents[change.path][1])
            if problem is None:
                kept.append(change)
            else:
                excluded.append(ExcludedEntry(change.path, f"a symlink: {problem}"))
                contents[change.path] = (contents[change.path][0], b"")
                kept += deletion_of(change)
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
        rendered: list[FileChange] = []
        size = lines = 0
        for change in changes:
            old, new = contents[change.path]
            binary = not texts[change.path]
            part, added, removed = renderer.entry(change, old, new, binary=binary)
            size += len(part)
            lines += part.count(b"\n")
            if size > self._limits.patch_bytes or lines > self._limits.patch_lines:
                raise TreeTooLarge(
                    f"the patch has more than {self._limits.patch_bytes} bytes or {self._limits.patch_lines} lines"
                )
            parts.append(part)
            rendered.append(replace(change, binary=binary, added=added, removed=removed))
        return rendered, b"".join(parts)


def _is_file(change: FileChange) -> bool:
    entry = change.after or change.before
    return entry is not None and entry.kind is Kind.FILE


def _read(tree: Tree, entry: Entry | None) -> bytes | None:
    """Read the content of an entry; None if it no longer matches the entry."""
    if entry is None:
        return b""
    try:
        content = tree.read(entry.path, max_bytes=entry.size)
    except (FileNotFoundError, IsADirectoryError, NotADirectoryError, PermissionError, TreeTooLarge):
        return None
    return content if hashlib.sha256(content).hexdigest() == entry.sha256 else None
