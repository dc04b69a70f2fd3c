"""Applies a parsed patch to a tree in memory, completely or not at all."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Protocol, runtime_checkable

from agentbench.core.dataclass import dataclass
from agentbench.core.errors import PatchInvalid, WorkspaceError
from agentbench.tree.entry import Entry, FileWrite, Kind, Tree
from agentbench.tree.limits import TreeTooLarge
from agentbench.workspace.diff.binary import apply_delta, blob_id
from agentbench.workspace.diff.file_patch import EXECUTABLE, SYMLINK, BinaryContent, FilePatch, Op, PatchLimits
from agentbench.workspace.diff.paths import count_entries, display_path, parents, target_problem
from agentbench.workspace.diff.placement import Placement, place_hunks, place_hunks_by_text

_FULL_ID = 40


@runtime_checkable
class EntryLookup(Protocol):
    """A tree that finds one entry without a walk. Raises IsADirectoryError and NotADirectoryError as open(2) would."""

    def entry(self, path: bytes) -> Entry | None: ...


@dataclass(frozen=True, slots=True)
class PlannedWrites:
    """The writes that apply a patch to a tree: deletions first, then files, each sorted by path."""

    writes: tuple[FileWrite, ...]
    moved: tuple[tuple[bytes, Placement], ...] = ()
    """Hunks that fit only with an offset or with fuzz, by path."""
    kept_line_endings: tuple[bytes, ...] = ()
    """Files whose line endings differ from the patch's. The file's endings are kept."""

    @property
    def fuzz(self) -> int:
        """The highest number of context lines that had to be ignored for a hunk."""
        return max((placement.fuzz for _, placement in self.moved), default=0)


def plan_writes(
    patches: Sequence[FilePatch],
    base: Tree,
    *,
    fuzz: int = 0,
    ignore_line_endings: bool = False,
    limits: PatchLimits | None = None,
) -> PlannedWrites:
    """Compute the writes that apply a patch to `base`.

    `fuzz` is the number of context lines at each end of a hunk that may differ. With `ignore_line_endings`, lines may
    match by their text alone.

    Raises:
        PatchInvalid: a part of the patch does not apply.
    """
    planner = _Planner(base, limits or PatchLimits(), fuzz, ignore_line_endings=ignore_line_endings)
    for patch in patches:
        planner.add(patch)
    return planner.finish()


class _Planner:
    """Collects the writes of one patch. Content is always read from the base, whatever the order of the entries."""

    def __init__(self, base: Tree, limits: PatchLimits, fuzz: int, *, ignore_line_endings: bool) -> None:
        self._base = base
        self._limits = limits
        self._fuzz = fuzz
        self._ignore_line_endings = ignore_line_endings
        self._bytes_left = limits.total_bytes
        self._listed: dict[bytes, Entry] | None = None
        self._removed: set[bytes] = set()
        self._written: dict[bytes, FileWrite] = {}
        self._created: set[bytes] = set()
        self._moved: list[tuple[bytes, Placement]] = []
        self._kept_line_endings: list[bytes] = []

    def add(self, patch: FilePatch) -> None:
        old = self._old_entry(patch)
        content = self._new_content(patch, old)
        if patch.op in {Op.DELETE, Op.RENAME}:
            self._removed.add(patch.old_path)
        if patch.op is Op.DELETE:
            if content:
                raise _invalid(patch, "the patch deletes the file but leaves content in it")
            return
        if patch.op is not Op.MODIFY or old is None:
            self._created.add(patch.new_path)
        self._bytes_left -= len(content)
        if len(content) > self._limits.file_bytes or self._bytes_left < 0:
            raise _invalid(
                patch,
                f"the patched content exceeds {self._limits.file_bytes} bytes per file or "
                f"{self._limits.total_bytes} bytes in total",
            )
        self._written[patch.new_path] = _write(patch, old, content)

    def finish(self) -> PlannedWrites:
        """Check that every written path is free and below real folders once the patch is applied."""
        entries = count_entries(self._written)
        if entries > self._limits.entries:
            raise PatchInvalid(
                f"the patch writes {entries} files and folders, the limit is {self._limits.entries}",
                remedy="nest fewer folders",
            )
        for path in self._written:
            problem = self._place_problem(path)
            if problem is not None:
                raise PatchInvalid(f"{display_path(path)}: {problem}")
        deletions = [FileWrite(path) for path in sorted(self._removed - self._written.keys())]
        files = [self._written[path] for path in sorted(self._written)]
        return PlannedWrites((*deletions, *files), tuple(self._moved), tuple(self._kept_line_endings))

    def _place_problem(self, path: bytes) -> str | None:
        for parent in parents(path):
            if parent in self._written:
                return f"goes through {display_path(parent)}, which the patch makes a file or symlink"
        try:
            existing = self._entry(path)
        except IsADirectoryError:
            # A file may replace a folder if the patch empties it. This is rare, so it may cost a walk.
            inside = [other for other in self._entries() if other.startswith(path + b"/")]
            return None if all(other in self._removed for other in inside) else "is a folder"
        except NotADirectoryError:
            return (
                None if any(parent in self._removed for parent in parents(path)) else "goes through a file or symlink"
            )
        if existing is not None and path in self._created and path not in self._removed:
            return "already exists"
        return None

    def _entries(self) -> dict[bytes, Entry]:
        if self._listed is None:
            self._listed = {entry.path: entry for entry in self._base.entries()}
        return self._listed

    def _entry(self, path: bytes) -> Entry | None:
        if isinstance(self._base, EntryLookup):
            try:
                return self._base.entry(path)
            except PermissionError as error:
                raise PatchInvalid(f"{display_path(path)}: cannot be read: {error.strerror}") from error
        entry = self._entries().get(path)
        if entry is None:
            if any(parent in self._entries() for parent in parents(path)):
                raise NotADirectoryError(path)
            if any(other.startswith(path + b"/") for other in self._entries()):
                raise IsADirectoryError(path)
        return entry

    def _old_entry(self, patch: FilePatch) -> Entry | None:
        """Return the entry that the patch changes; None for a new file."""
        if patch.op is Op.ADD:
            return None
        try:
            entry = self._entry(patch.old_path)
        except (IsADirectoryError, NotADirectoryError):
            entry = None
        if entry is None:
            if patch.may_create:
                return None
            raise PatchInvalid(f"{display_path(patch.old_path)}: there is no such file to {patch.op.value}")
        if entry.kind is Kind.SPECIAL:
            raise _invalid(patch, "is not a regular file")
        mode = patch.old_mode if patch.old_mode is not None else patch.new_mode
        if (entry.kind is Kind.SYMLINK) != (mode == SYMLINK) and not (
            mode is None and not patch.hunks and not patch.binary
        ):
            kind, expected = ("a symlink", "a file") if entry.kind is Kind.SYMLINK else ("a file", "a symlink")
            raise _invalid(patch, f"is {kind}, but the patch expects {expected}")
        return entry

    def _new_content(self, patch: FilePatch, old: Entry | None) -> bytes:
        before = b""
        if old is not None:
            try:
                before = self._base.read(patch.old_path, max_bytes=self._limits.file_bytes)
            except (FileNotFoundError, IsADirectoryError, NotADirectoryError, PermissionError, TreeTooLarge) as error:
                raise _invalid(patch, f"cannot be read: {error}") from error
            except OSError as error:
                raise WorkspaceError(f"cannot read {display_path(patch.path)}: {error}") from error
        try:
            if patch.binary is not None:
                return _apply_binary(patch, patch.binary, before)
            after, placements = self._apply_hunks(patch, before)
        except PatchInvalid as error:
            raise PatchInvalid(f"{display_path(patch.path)}: {error}", remedy=error.remedy) from error
        self._moved += ((patch.path, placement) for placement in placements if placement.offset or placement.fuzz)
        return after

    def _apply_hunks(self, patch: FilePatch, before: bytes) -> tuple[bytes, tuple[Placement, ...]]:
        if not self._ignore_line_endings or patch.op is Op.ADD or not before:
            return place_hunks(before, patch.hunks, self._fuzz)
        try:
            return place_hunks(before, patch.hunks, 0)  # an exact match takes precedence
        except PatchInvalid:
            after, placements, endings_differ = place_hunks_by_text(before, patch.hunks, self._fuzz)
            if endings_differ:
                self._kept_line_endings.append(patch.path)
            return after, placements


def _invalid(patch: FilePatch, reason: str) -> PatchInvalid:
    return PatchInvalid(f"{display_path(patch.path)}: {reason}")


def _apply_binary(patch: FilePatch, binary: BinaryContent, before: bytes) -> bytes:
    if patch.op is not Op.ADD and not _is_blob(patch.old_blob, before):
        raise PatchInvalid("the binary patch was made for different content")
    after = apply_delta(before, binary.data) if binary.is_delta else binary.data
    if patch.op is not Op.DELETE and not _is_blob(patch.new_blob, after):
        raise PatchInvalid("the binary patch does not produce the content named in its index line")
    return after


def _is_blob(name: str | None, content: bytes) -> bool:
    """Return False if the patch gives a full blob id and the content has a different one."""
    return name is None or len(name) != _FULL_ID or name == blob_id(content)


def _write(patch: FilePatch, old: Entry | None, content: bytes) -> FileWrite:
    if patch.new_mode == SYMLINK or (patch.new_mode is None and old is not None and old.kind is Kind.SYMLINK):
        problem = target_problem(patch.new_path, content)
        if problem is not None:
            raise _invalid(patch, f"symlink not allowed: {problem}")
        return FileWrite(patch.new_path, symlink=content)
    executable = patch.new_mode == EXECUTABLE
    if patch.new_mode is None:
        executable = old is not None and old.executable
    return FileWrite(patch.new_path, content=content, executable=executable)


class PatchedTree:
    """`base` with `writes` applied in memory. A file that replaces a folder hides the entries below it."""

    def __init__(self, base: Tree, writes: Sequence[FileWrite]) -> None:
        self._base = base
        self._writes = {write.path: write for write in writes}

    def entries(self) -> Iterator[Entry]:
        added = {path: entry for path, write in self._writes.items() if (entry := write.entry()) is not None}
        kept = (entry for entry in self._base.entries() if entry.path not in self._writes)
        merged = [
            *added.values(),
            *(entry for entry in kept if not any(parent in added for parent in parents(entry.path))),
        ]
        return iter(sorted(merged, key=lambda entry: entry.path))

    def read(self, path: bytes, *, max_bytes: int) -> bytes:
        write = self._writes.get(path)
        if write is None:
            return self._base.read(path, max_bytes=max_bytes)
        if write.data is None:
            raise FileNotFoundError(path)
        if len(write.data) > max_bytes:
            raise TreeTooLarge(f"the file has {len(write.data)} bytes, the limit is {max_bytes}")
        return write.data
