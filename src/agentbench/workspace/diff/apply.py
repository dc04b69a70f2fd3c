"""Applying a parsed patch to a tree in memory: all of it or nothing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from agentbench.core.errors import PatchInvalid, WorkspaceError
from agentbench.tree.entry import Entry, FileWrite, Kind, Tree
from agentbench.tree.limits import TreeTooLarge
from agentbench.workspace.diff.binary import apply_delta, blob_id
from agentbench.workspace.diff.file_patch import EXECUTABLE, SYMLINK, Binary, FilePatch, Op, PatchLimits
from agentbench.workspace.diff.hunks import Placement, place
from agentbench.workspace.diff.line_endings import place_by_text
from agentbench.workspace.diff.paths import shown, target_problem

_FULL_ID = 40


@runtime_checkable
class Lookup(Protocol):
    """A tree that can tell one entry without a walk. It raises IsADirectoryError and NotADirectoryError as opening would."""

    def entry(self, path: bytes) -> Entry | None: ...


@dataclass(frozen=True, slots=True)
class Plan:
    """What a patch comes to on a tree. `moved` has the hunks that did not stand where the patch said, by path."""

    writes: tuple[FileWrite, ...]
    moved: tuple[tuple[bytes, Placement], ...] = ()
    line_ends: tuple[bytes, ...] = ()
    """Files whose line ends are not the patch's: the file's were kept."""

    @property
    def fuzz(self) -> int:
        """The most context lines that had to be ignored for any hunk."""
        return max((placement.fuzz for _, placement in self.moved), default=0)


def apply(patches: Sequence[FilePatch], base: Tree, *, fuzz: int = 0) -> tuple[FileWrite, ...]:
    """The writes that carry the patch out: deletions first, then files, each sorted by path.

    Raises:
        PatchInvalid: any part of it does not apply; then none of it does.
    """
    return plan(patches, base, fuzz=fuzz).writes


def plan(
    patches: Sequence[FilePatch],
    base: Tree,
    *,
    fuzz: int = 0,
    any_line_ends: bool = False,
    limits: PatchLimits | None = None,
) -> Plan:
    """As `apply`, and where hunks had to be moved. `any_line_ends`: lines may match by their text alone.

    Raises:
        PatchInvalid: any part of it does not apply.
    """
    work = _Work(base, limits or PatchLimits(), fuzz, any_line_ends=any_line_ends)
    for patch in patches:
        work.take(patch)
    work.check()
    deletions = [FileWrite(path) for path in sorted(work.removed - work.written.keys())]
    files = [work.written[path] for path in sorted(work.written)]
    return Plan((*deletions, *files), tuple(work.moved), tuple(work.line_ends))


class _Work:
    """The state of one application. All content is read from the base, whatever order the entries have."""

    def __init__(self, base: Tree, limits: PatchLimits, fuzz: int, *, any_line_ends: bool) -> None:
        self._base = base
        self._limits = limits
        self._fuzz = fuzz
        self._any_line_ends = any_line_ends
        self._bytes_left = limits.total_bytes
        self._all: dict[bytes, Entry] | None = None
        self.removed: set[bytes] = set()
        self.written: dict[bytes, FileWrite] = {}
        self.moved: list[tuple[bytes, Placement]] = []
        self.line_ends: list[bytes] = []
        self._created: set[bytes] = set()

    def take(self, patch: FilePatch) -> None:
        old = self._old(patch)
        content = self._content(patch, old)
        if patch.op in {Op.DELETE, Op.RENAME}:
            self.removed.add(patch.old_path)
        if patch.op is Op.DELETE:
            if content:
                raise _refuse(patch, "the patch deletes the file but leaves content in it")
            return
        if patch.op is not Op.MODIFY or old is None:
            self._created.add(patch.new_path)
        self._bytes_left -= len(content)
        if len(content) > self._limits.file_bytes or self._bytes_left < 0:
            raise _refuse(patch, "the patch makes more content than it may")
        self.written[patch.new_path] = _write(patch, old, content)

    def check(self) -> None:
        """That every written path is free and below real folders once the patch is applied."""
        for path in self.written:
            problem = self._place_problem(path)
            if problem is not None:
                raise PatchInvalid(f"{shown(path)}: {problem}")

    def _place_problem(self, path: bytes) -> str | None:
        parts = path.split(b"/")
        for count in range(1, len(parts)):
            if b"/".join(parts[:count]) in self.written:
                return f"goes through {shown(b'/'.join(parts[:count]))}, which the patch makes a file or symlink"
        try:
            there = self._entry(path)
        except IsADirectoryError:
            # A file may take the place of a folder if nothing is left in it. Rare, so it may cost a walk.
            inside = [other for other in self._entries() if other.startswith(path + b"/")]
            return None if all(other in self.removed for other in inside) else "is a folder"
        except NotADirectoryError:
            above = [b"/".join(parts[:count]) for count in range(1, len(parts))]
            return None if any(other in self.removed for other in above) else "goes through a file or symlink"
        if there is not None and path in self._created and path not in self.removed:
            return "exists already"
        return None

    def _entries(self) -> dict[bytes, Entry]:
        if self._all is None:
            self._all = {entry.path: entry for entry in self._base.entries()}
        return self._all

    def _entry(self, path: bytes) -> Entry | None:
        if isinstance(self._base, Lookup):
            try:
                return self._base.entry(path)
            except PermissionError as error:
                raise PatchInvalid(f"{shown(path)}: cannot be read: {error.strerror}") from error
        found = self._entries().get(path)
        if found is None:
            parts = path.split(b"/")
            if any(b"/".join(parts[:count]) in self._entries() for count in range(1, len(parts))):
                raise NotADirectoryError(path)
            if any(other.startswith(path + b"/") for other in self._entries()):
                raise IsADirectoryError(path)
        return found

    def _old(self, patch: FilePatch) -> Entry | None:
        """The entry the patch starts from; None for a new file."""
        if patch.op is Op.ADD:
            return None
        try:
            entry = self._entry(patch.old_path)
        except (IsADirectoryError, NotADirectoryError):
            entry = None
        if entry is None:
            if patch.may_create:
                return None
            raise PatchInvalid(f"{shown(patch.old_path)}: there is no such file to {patch.op.value}")
        if entry.kind is Kind.SPECIAL:
            raise _refuse(patch, "is not a regular file")
        said = patch.old_mode if patch.old_mode is not None else patch.new_mode
        if (entry.kind is Kind.SYMLINK) != (said == SYMLINK) and not (
            said is None and not patch.hunks and not patch.binary
        ):
            is_what = "a symlink" if entry.kind is Kind.SYMLINK else "a file"
            raise _refuse(patch, f"is {is_what}, and the patch does not say so")
        return entry

    def _content(self, patch: FilePatch, old: Entry | None) -> bytes:
        before = b""
        if old is not None:
            try:
                before = self._base.read(patch.old_path, max_bytes=self._limits.file_bytes)
            except (FileNotFoundError, IsADirectoryError, NotADirectoryError, PermissionError, TreeTooLarge) as error:
                raise _refuse(patch, f"cannot be read: {error}") from error
            except OSError as error:
                raise WorkspaceError(f"{shown(patch.path)} cannot be read: {error}") from error
        try:
            if patch.binary is not None:
                return _binary(patch, patch.binary, before)
            after, placements = self._place(patch, before)
        except PatchInvalid as error:
            raise PatchInvalid(f"{shown(patch.path)}: {error}", remedy=error.remedy) from error
        self.moved += ((patch.path, placement) for placement in placements if placement.offset or placement.fuzz)
        return after

    def _place(self, patch: FilePatch, before: bytes) -> tuple[bytes, tuple[Placement, ...]]:
        if not self._any_line_ends or patch.op is Op.ADD or not before:
            return place(before, patch.hunks, self._fuzz)
        try:
            return place(before, patch.hunks, 0)  # a patch that fits as it is means what it says
        except PatchInvalid:
            made = place_by_text(before, patch.hunks, self._fuzz)
            if made.differs:
                self.line_ends.append(patch.path)
            return made.content, made.placements


def _refuse(patch: FilePatch, why: str) -> PatchInvalid:
    return PatchInvalid(f"{shown(patch.path)}: {why}")


def _binary(patch: FilePatch, binary: Binary, before: bytes) -> bytes:
    if patch.op is not Op.ADD and not _is_blob(patch.old_blob, before):
        raise PatchInvalid("the binary patch was made for other content")
    after = apply_delta(before, binary.data) if binary.delta else binary.data
    if patch.op is not Op.DELETE and not _is_blob(patch.new_blob, after):
        raise PatchInvalid("the binary patch does not make the content it names")
    return after


def _is_blob(name: str | None, content: bytes) -> bool:
    """False if the patch gives a full id and the content has another one."""
    return name is None or len(name) != _FULL_ID or name == blob_id(content)


def _write(patch: FilePatch, old: Entry | None, content: bytes) -> FileWrite:
    if patch.new_mode == SYMLINK or (patch.new_mode is None and old is not None and old.kind is Kind.SYMLINK):
        problem = target_problem(patch.new_path, content)
        if problem is not None:
            raise _refuse(patch, f"a symlink that may not be made: {problem}")
        return FileWrite(patch.new_path, symlink=content)
    executable = patch.new_mode == EXECUTABLE
    if patch.new_mode is None:
        executable = old is not None and old.executable
    return FileWrite(patch.new_path, content=content, executable=executable)
