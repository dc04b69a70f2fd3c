"""The state of the repository as the log tells it: which files differ from how the agent found them."""

from __future__ import annotations

import hashlib
from collections.abc import Hashable, Iterator

from agentbench.trace.events import FileDigest, PatchApplied, Payload, WorkspaceMutated


class RepositoryState:
    """A fold over mutation events. Generated files do not count; what an event left out makes a state of its own."""

    def __init__(self) -> None:
        self.changes = 0
        """How often the repository changed."""
        self._base: dict[str, str] = {}
        self._now: dict[str, str] = {}
        self._mark = 0
        self._opaque = 0

    @property
    def differs(self) -> bool:
        """Whether anything is not as the agent found it."""
        return bool(self._now) or self._opaque > 0

    @property
    def signature(self) -> Hashable:
        """Equal for equal states, whatever way led to them."""
        return (self._mark, self._opaque)

    def after(self, payload: Payload) -> bool:
        """Account for one event; whether the repository changed by it."""
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
        self._opaque += hidden
        self.changes += changed
        return changed

    def _put(self, path: str, before: str, after: str) -> None:
        base = self._base.setdefault(path, before)
        known = self._now.pop(path, None)
        if known is not None:
            self._mark ^= _mark(path, known)
        if after != base:
            self._now[path] = after
            self._mark ^= _mark(path, after)


def _contents(files: list[FileDigest]) -> Iterator[tuple[str, str, str]]:
    """Path with what it held before and after; a rename is two of them."""
    for one in files:
        if one.generated:
            continue
        before, after = _content(one.before_sha256, one.before_mode), _content(one.after_sha256, one.after_mode)
        if one.old_path is not None and one.old_path != one.path:
            yield one.old_path, before, ""
            yield one.path, "", after
        else:
            yield one.path, before, after


def _content(sha256: str | None, mode: str | None) -> str:
    return "" if sha256 is None else f"{mode or ''}:{sha256}"


def _mark(path: str, content: str) -> int:
    """Marks of all changed files are combined by XOR, so one more change costs the same however many there are."""
    return int.from_bytes(hashlib.sha256(f"{path}\0{content}".encode("utf-8", "backslashreplace")).digest()[:16])
