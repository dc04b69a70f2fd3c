"""Tracks the files of the workspace and what each call changed.

The effect of a command is the difference between two listings. The last listing is kept, and reused while nothing can have
changed the workspace.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import islice

from agentbench.core.dataclass import dataclass
from agentbench.core.errors import ToolFault, WorkspaceError
from agentbench.sandbox.protocol import Sandbox
from agentbench.tools.event_recorder import EventRecorder
from agentbench.tools.paths import show
from agentbench.tools.result import ToolError
from agentbench.tools.step_diffs import MAX_DIFFED_FILE, StepDiffs
from agentbench.trace.events import Excerpt, FileDigest, WorkspaceMutated
from agentbench.tree.entry import Entry, FileWrite, Kind, QuickTree, Tree
from agentbench.tree.folder import FolderTree
from agentbench.tree.limits import TreeTooLarge
from agentbench.workspace.diff.apply import EntryLookup
from agentbench.workspace.diff.compare import FileChange, Globs, compare
from agentbench.workspace.diff.events import file_digest

MAX_ENTRIES = 150_000
MAX_FILES_IN_EVENT = 200
DIFF_SHOWN = 8_000
MAX_OBSERVED_DIFFS = 32 * 1024 * 1024
"""Bytes of diffs that scans of running programs may log in one attempt."""


@dataclass(frozen=True, slots=True)
class Changes:
    """Changed files, sorted by path. `problem` says why they could not be determined."""

    files: tuple[FileChange, ...] = ()
    problem: str | None = None

    @property
    def own(self) -> tuple[bytes, ...]:
        """Return the changed paths, without generated files."""
        return tuple(change.path for change in self.files if not change.generated)


class WorkspaceTracker:
    """Keeps the entries of a live workspace. `base` is the workspace before the agent started."""

    def __init__(
        self, sandbox: Sandbox, base: Tree | None, recorder: EventRecorder, *, generated: tuple[str, ...] = ()
    ) -> None:
        self._tree = sandbox.tree()
        self._base = base
        self._generated = Globs(generated)
        self._recorder = recorder
        self._entries: dict[bytes, Entry] = {}
        self._current = False
        self._known = False
        self._steps = StepDiffs(lambda entry: None if base is None else _read(base, entry))
        self._written: dict[str, bytes] = {}
        """Contents that the harness wrote last, by digest."""
        self._observed_bytes = 0

    def entries(self) -> dict[bytes, Entry]:
        """Return all current entries, sorted by path.

        Raises:
            ToolFault: too_large.
        """
        changes = self.settle()
        if changes is not None and changes.problem is not None:
            raise ToolFault(f"cannot list the workspace: {changes.problem}", kind=ToolError.TOO_LARGE)
        return self._entries

    def settle(self) -> Changes | None:
        """Scan if the current state is not known. Returns None if it is."""
        return None if self._current else self.scan()

    def scan(self, *, quick: bool = False) -> Changes:
        """List the tree again and return the changes since the last listing. The first scan returns none.

        `quick`: do not read files again that seem unchanged since the last quick scan.
        """
        self._current = False
        tree = self._tree
        listing = tree.quick_entries() if quick and isinstance(tree, QuickTree) else tree.entries()
        try:
            entries = {entry.path: entry for entry in islice(listing, MAX_ENTRIES + 1)}
        except TreeTooLarge as error:
            return Changes(problem=error.message)
        if len(entries) > MAX_ENTRIES:
            return Changes(problem=f"the tree has more than {MAX_ENTRIES} files")
        before, first = self._entries, not self._known
        self._entries, self._current, self._known = entries, True, True
        if first or before == entries:
            return Changes()
        return Changes(self._mark_generated(compare(before.values(), entries.values())))

    def observe(self, call_id: str) -> int:
        """Scan while a program changes the workspace, and log the changes so far. Returns the number of the event, or 0.

        After many diffs only digests are logged; the event of the last scan has the diff of the rest.
        """
        try:
            changes = self.scan(quick=True)
        except (WorkspaceError, OSError) as error:  # the program moves folders while they are read
            changes = Changes(problem=str(error))
        event = self._event(call_id, changes, with_diff=self._observed_bytes < MAX_OBSERVED_DIFFS)
        if event is None:
            return 0
        self._observed_bytes += event.diff.total_bytes
        return self._recorder.write(event)

    def changes_since(self, entries: Mapping[bytes, Entry]) -> Changes:
        """Return the changes between earlier entries and the last scan."""
        return Changes(self._mark_generated(compare(entries.values(), self._entries.values())))

    @property
    def known_entries(self) -> Mapping[bytes, Entry]:
        """Return the entries of the last scan, without scanning."""
        return self._entries

    def wrote(self, writes: Sequence[FileWrite]) -> Changes:
        """Account for writes made by the harness itself, without scanning the tree."""
        changes: list[FileChange] = []
        self._written = {}
        for write in sorted(writes, key=lambda write: write.path):
            before = self._entries.get(write.path)
            after = write.entry()
            if before == after:
                continue
            changes += self._mark_generated(compare([before] if before else [], [after] if after else []))
            if after is None:
                self._entries.pop(write.path, None)
            else:
                self._entries[write.path] = after
                self._written[after.sha256] = write.data or b""
        if any(change.before is None for change in changes):
            self._entries = dict(sorted(self._entries.items()))
        return Changes(tuple(changes))

    @property
    def tree(self) -> Tree:
        """Return the live tree if it can look up single entries, else one with the known entries, to avoid a walk."""
        if isinstance(self._tree, EntryLookup) or not self._current:
            return self._tree
        return _KnownTree(self._entries, self._tree)

    def close(self) -> None:
        """Close the tree, if it holds a descriptor."""
        if isinstance(self._tree, FolderTree):
            self._tree.close()

    def read(self, path: bytes, *, max_bytes: int) -> bytes:
        """
        Raises:
            OSError, TreeTooLarge.
        """
        return self._tree.read(path, max_bytes=max_bytes)

    def content(self, entry: Entry) -> tuple[bytes | None, bool]:
        """Return the content of a small file, or None, and whether it was read from the live workspace."""
        content = _read(self._base, entry) if self._base is not None else None
        if content is not None:
            return content, False
        return _read(self._tree, entry), True

    def target(self, path: bytes) -> bytes:
        """Return the target of a symlink in the workspace.

        Raises:
            ToolFault: not_found.
        """
        try:
            return self.read(path, max_bytes=4096)
        except (OSError, TreeTooLarge):
            raise ToolFault(f"'{show(path)}' cannot be read", kind=ToolError.NOT_FOUND) from None

    # --- events ---------------------------------------------------------------------------------------------------

    def log_changes(self, call_id: str, changes: Changes, whole: Changes | None = None) -> int:
        """Log the changes. Returns the number of the event, or 0 if nothing changed.

        `whole`: everything that the call changed; the diff contains what earlier events about it left out.
        """
        event = self._event(call_id, changes, whole)
        if event is None:
            return 0
        seq = self._recorder.write(event)
        if changes.problem is not None:
            self._recorder.alert("workspace", "tree_limits", f"cannot tell what changed: {changes.problem}")
        return seq

    def _event(
        self, call_id: str, changes: Changes, whole: Changes | None = None, *, with_diff: bool = True
    ) -> WorkspaceMutated | None:
        """Return the event for the changes. Without files it says that they are not known."""
        if changes.problem is not None:
            return WorkspaceMutated(call_id=call_id, files=[])
        covered = changes if whole is None else self._with_outdated(whole)
        diff = self.diff(covered) if with_diff else Excerpt()
        if diff.total_bytes and not changes.files:
            changes = covered
        if not changes.files:
            return None
        return WorkspaceMutated(
            call_id=call_id,
            files=self.digests(changes),
            omitted=max(len(changes.files) - MAX_FILES_IN_EVENT, 0),
            diff=diff,
        )

    def _with_outdated(self, whole: Changes) -> Changes:
        """Add the files that earlier diffs contain and that are no longer as the call found them, nor as in those diffs."""
        files = {change.path: change for change in (*self._steps.outdated(self._entries), *whole.files)}
        return Changes(tuple(files[path] for path in sorted(files)))

    def digests(self, changes: Changes) -> list[FileDigest]:
        """Return digests before and after of as many files as an event holds, generated files last."""
        ordered = sorted(changes.files, key=lambda change: change.generated)
        return [file_digest(change) for change in ordered[:MAX_FILES_IN_EVENT]]

    def diff(self, changes: Changes) -> Excerpt:
        """Return the changes as a patch, without generated and large files, for which the digests must do."""
        diff = self._steps.render(changes.files, self._new_content)
        return self._recorder.excerpt(diff, limit=DIFF_SHOWN) if diff else Excerpt()

    def original(self, change: FileChange, *, max_bytes: int) -> FileWrite | None:
        """Return the write that restores a file to its base content, or None if that is not available."""
        if change.before is None:
            return FileWrite(change.path)
        content = _read(self._base, change.before, max_bytes) if self._base is not None else None
        return _write(change.before, content)

    def _new_content(self, entry: Entry) -> bytes | None:
        content = self._written.get(entry.sha256)
        return _read(self._tree, entry) if content is None else content

    def _mark_generated(self, changes: Iterable[FileChange]) -> tuple[FileChange, ...]:
        return tuple(
            replace(change, generated=True) if self._generated.match(change.path) else change for change in changes
        )


class _KnownTree:
    """A tree with known entries, so that nothing is listed again. Contents are read from the live tree."""

    def __init__(self, entries: Mapping[bytes, Entry], tree: Tree) -> None:
        self._entries = entries
        self._tree = tree

    def entries(self) -> Iterator[Entry]:
        return iter(self._entries.values())

    def read(self, path: bytes, *, max_bytes: int) -> bytes:
        return self._tree.read(path, max_bytes=max_bytes)


def _read(tree: Tree, entry: Entry, max_bytes: int = MAX_DIFFED_FILE) -> bytes | None:
    """Return the content that `entry` describes, or None if the tree has changed since."""
    try:
        content = tree.read(entry.path, max_bytes=max_bytes)
    except (OSError, TreeTooLarge):
        return None
    return content if hashlib.sha256(content).hexdigest() == entry.sha256 else None


def _write(entry: Entry, content: bytes | None) -> FileWrite | None:
    """Return the write that produces an entry, or None if its content is not known."""
    if content is None or entry.kind is Kind.SPECIAL:
        return None
    if entry.kind is Kind.SYMLINK:
        return FileWrite(entry.path, symlink=content)
    return FileWrite(entry.path, content=content, executable=entry.executable)
