"""Tracks from the log which files differ from the base repository."""

from __future__ import annotations

import hashlib
from collections.abc import Hashable, Iterator

from agentbench.trace.events import FileDigest, PatchApplied, Payload, WorkspaceMutated


class RepositoryState:
    """Accumulates mutation events. Generated files do not count; changes without file digests count as a new state."""

    def __init__(self) -> None:
        self.changes = 0
        """Number of changes to the repository."""
        self._base: dict[str, str] = {}
        self._now: dict[str, str] = {}
        self._hash = 0
        self._undigested = 0

    @property
    def differs(self) -> bool:
        """Return whether any file differs from the start of the agent phase."""
        return bool(self._now) or self._undigested > 0

    @property
    def signature(self) -> Hashable:
        """Return a value that is equal for equal states."""
        return (self._hash, self._undigested)

    def update(self, payload: Payload) -> bool:
        """Process one event and return whether it changed the repository."""
        match payload:
            case WorkspaceMutated():
                files, hidden = payload.files, payload.omitted > 0 or not payload.files
            case PatchApplied() if payload.call_id is not None:
                files, hidden = payload.files, False
            case _:
                return False
        changed = hidden
        for path, before, after in _contents(files):
            changed = True
            self._put(path, before, after)
        self._undigested += hidden
        self.changes += changed
        return changed

    def _put(self, path: str, before: str, after: str) -> None:
        base = self._base.setdefault(path, before)
        known = self._now.pop(path, None)
        if known is not None:
            self._hash ^= _hash(path, known)
        if after != base:
            self._now[path] = after
            self._hash ^= _hash(path, after)


def _contents(files: list[FileDigest]) -> Iterator[tuple[str, str, str]]:
    """Yield each path with its content before and after; a rename yields two."""
    for file in files:
        if file.generated:
            continue
        before, after = _content(file.before_sha256, file.before_mode), _content(file.after_sha256, file.after_mode)
        if file.old_path is not None and file.old_path != file.path:
            yield file.old_path, before, ""
            yield file.path, "", after
        else:
            yield file.path, before, after


def _content(sha256: str | None, mode: str | None) -> str:
    return "" if sha256 is None else f"{mode or ''}:{sha256}"


def _hash(path: str, content: str) -> int:
    """Hash one changed file. Hashes are combined by XOR, so the cost of a change does not grow with their number."""
    return int.from_bytes(hashlib.sha256(f"{path}\0{content}".encode("utf-8", "backslashreplace")).digest()[:16])
