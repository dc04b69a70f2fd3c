"""Renders the changes of each call as a patch that applies to the result of the patches before it.

A file that cannot be rendered (too large, unreadable, changed while it was read) is left out and stays at its last rendered
content, so later patches still apply. The digests in the events cover every file.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from agentbench.tree.entry import Entry, FileWrite, Kind
from agentbench.tree.memory import MemoryTree
from agentbench.workspace.diff.compare import FileChange, compare
from agentbench.workspace.diff.extract import extract
from agentbench.workspace.diff.paths import path_problem, target_problem

MAX_DIFFED_FILE = 256 * 1024
MAX_DIFFED = 512 * 1024
MAX_KEPT = 16 * 1024 * 1024

ReadEntry = Callable[[Entry], bytes | None]
"""Returns the content that an entry describes, or None if it is not available."""


class StepDiffs:
    """Holds the content of every changed file after the last patch. `read_base` reads files as the agent found them."""

    def __init__(self, read_base: ReadEntry) -> None:
        self._read_base = read_base
        self._originals: dict[bytes, Entry | None] = {}
        """Every path that changed, as the agent found it."""
        self._rendered: dict[bytes, FileWrite] = {}
        self._kept_bytes = 0

    def render(self, changes: Iterable[FileChange], read: ReadEntry) -> bytes:
        """Return the changes as a patch, without generated files. `read` reads the workspace."""
        before, after = MemoryTree(), MemoryTree()
        left = MAX_DIFFED
        for change in changes:
            original = self._originals.setdefault(change.path, change.before)
            if change.generated or path_problem(change.path) is not None or _size(change.after) > left:
                continue
            old, new = self._last(change.path, original), _patched(_write(change.path, change.after, read))
            if old is None or new is None:
                continue
            size = len(old.data or b"") + len(new.data or b"")
            if size > left or not self._keep(new, original):
                continue
            left -= size
            before.put(old)
            after.put(new)
        return extract(before, after).patch

    def outdated(self, entries: Mapping[bytes, Entry]) -> tuple[FileChange, ...]:
        """Return the difference between the last patch and the current entries, for files in earlier patches."""
        before = {path: write.entry() for path, write in self._rendered.items()}
        after = {path: entry for path in before if (entry := entries.get(path)) is not None}
        return compare(filter(None, before.values()), after.values())

    def _last(self, path: bytes, original: Entry | None) -> FileWrite | None:
        """Return the content after the last patch, or None if it is not available."""
        return self._rendered.get(path) or _write(path, original, self._read_base)

    def _keep(self, write: FileWrite, original: Entry | None) -> bool:
        """Keep a content for the next patch. Return False if that would exceed the limit."""
        rendered = self._rendered.get(write.path)
        kept_bytes = self._kept_bytes - len((rendered.data if rendered else None) or b"")
        if write.entry() == original:
            self._rendered.pop(write.path, None)
        elif kept_bytes + len(write.data or b"") > MAX_KEPT:
            return False
        else:
            kept_bytes += len(write.data or b"")
            self._rendered[write.path] = write
        self._kept_bytes = kept_bytes
        return True


def _size(entry: Entry | None) -> int:
    return 0 if entry is None else entry.size


def _write(path: bytes, entry: Entry | None, read: ReadEntry) -> FileWrite | None:
    """Return the write that produces an entry, or None if its content is not available or too large."""
    if entry is None or entry.kind is Kind.SPECIAL:
        return FileWrite(path)
    content = None if entry.size > MAX_DIFFED_FILE else read(entry)
    if content is None:
        return None
    if entry.kind is Kind.SYMLINK:
        return FileWrite(path, symlink=content)
    return FileWrite(path, content=content, executable=entry.executable)


def _patched(write: FileWrite | None) -> FileWrite | None:
    """Return the write as a patch can represent it: a symlink with a forbidden target counts as deleted."""
    if write is not None and write.symlink is not None and target_problem(write.path, write.symlink):
        return FileWrite(write.path)
    return write
