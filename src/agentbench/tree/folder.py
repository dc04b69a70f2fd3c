"""A tree in a folder with untrusted content."""

from __future__ import annotations

import errno
import hashlib
import os
import stat
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import TracebackType
from typing import Self

from agentbench.core.errors import WorkspaceError
from agentbench.tree.beneath import DIRECTORY, FILE, open_beneath, split
from agentbench.tree.entry import Entry, Kind
from agentbench.tree.limits import Budget, TreeLimits, too_large
from agentbench.tree.overlay import LowerLayers, NoShortcut, Shortcut
from agentbench.tree.walk import Visit, walk

_CHUNK = 1024 * 1024
_CLOCK_SLACK_NS = 20_000_000
"""Change times come from a coarse clock, which advances every few milliseconds."""
_GONE = frozenset({errno.ENOENT, errno.ENOTDIR, errno.ELOOP, errno.ENXIO, errno.ENODEV})
_REFUSED = frozenset({errno.EACCES, errno.EPERM})

NOTHING_CHANGED = -1
"""Value of `changed_fd` if the upper layer does not contain the folder."""


_Read = tuple[tuple[int, ...], Entry]
"""An entry, and the inode, size, change time and mode of the file when it was read."""
_Linked = dict[tuple[int, ...], str]
"""Digests of files with several hard links that a listing has read, by the same key. Every other link is not read again."""


class FolderTree:
    """The tree below a directory descriptor.

    With `known` and `changed_fd` it is the merged view of an overlay: `known` has the entries of the lower layers, and
    `changed_fd` is the same folder in the upper layer. Entries that the upper layer does not contain are taken from `known`
    without reading them. This requires that folders cannot be redirected (`redirect_dir=off`) and that metadata is not copied
    up alone (`metacopy=off`); the mount option `userxattr` implies both.

    Unreadable files (mode 000, harness without root) become entries of kind SPECIAL; `problems` has the reasons after a walk.
    """

    def __init__(
        self,
        dirfd: int,
        *,
        owns: bool = True,
        limits: TreeLimits | None = None,
        known: Mapping[bytes, Entry] | None = None,
        changed_fd: int | None = None,
    ) -> None:
        if (known is None) != (changed_fd is None):
            raise ValueError("`known` and `changed_fd` must be passed together")
        self._dirfd = dirfd
        self._owns = owns
        self._limits = limits or TreeLimits()
        self._known = known
        self._changed_fd = changed_fd
        self.problems: dict[bytes, str] = {}
        self._digests: dict[bytes, _Read] = {}
        """Files that the last quick listing read, by path."""
        self._read_now: dict[bytes, _Read] | None = None
        """The same for the quick listing in progress, if one is."""

    @classmethod
    def at(cls, path: Path, *, limits: TreeLimits | None = None) -> FolderTree:
        """Open the tree of a trusted folder path.

        Raises:
            WorkspaceError: the folder does not exist or is a symlink.
        """
        try:
            return cls(os.open(path, DIRECTORY), limits=limits)
        except OSError as error:
            raise WorkspaceError(f"cannot open the folder {path}: {error.strerror}") from error

    def close(self) -> None:
        if self._owns and self._dirfd >= 0:
            os.close(self._dirfd)
        self._dirfd = -1

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def entries(self) -> Iterator[Entry]:
        """Yield every entry, sorted by path.

        Raises:
            TreeTooLarge: the tree exceeds its limits.
            WorkspaceError: the file system failed.
        """
        self.problems.clear()
        budget = Budget(self._limits)
        linked: _Linked = {}
        shortcut: Shortcut = NoShortcut()
        if self._known is not None and self._changed_fd is not None:
            shortcut = LowerLayers(self._known, self._changed_fd)
        try:
            for visit in walk(self._dirfd, budget, shortcut, self.problems):
                if isinstance(visit, Entry):
                    budget.content(visit.size if visit.kind is Kind.FILE else 0)
                    yield visit
                else:
                    read_now = self._read_now
                    entry = (
                        self._entry_of(visit, budget, linked)
                        if read_now is None
                        else self._quick_entry_of(visit, budget, linked, read_now)
                    )
                    if entry is not None:
                        yield entry
        except OSError as error:
            if error.errno == errno.ESTALE:  # folders were moved while being read: the agent's doing
                raise too_large("folders that move while being read") from error
            raise WorkspaceError(f"cannot read the workspace: {error}") from error

    def quick_entries(self) -> Iterator[Entry]:
        """Yield every entry, but do not read files again whose inode, size and change time are those of the last call.

        Writes through a memory mapping may go unnoticed, because some file systems do not change the time.

        Raises:
            TreeTooLarge, WorkspaceError: as `entries`.
        """
        self._read_now = {}
        try:
            yield from self.entries()
            self._digests = self._read_now
        finally:
            self._read_now = None

    def entry(self, path: bytes) -> Entry | None:
        """Return the entry at one path without a walk.

        Raises:
            IsADirectoryError: the path is a folder.
            NotADirectoryError: a parent of the path is not a folder.
        """
        budget = Budget(self._limits)
        try:
            parent, name = self._parent(path)
        except FileNotFoundError:
            return None
        try:
            info = os.stat(name, dir_fd=parent, follow_symlinks=False)
            if stat.S_ISDIR(info.st_mode):
                raise IsADirectoryError(errno.EISDIR, "is a folder", path)
            return self._entry_of(Visit(path, name, parent, _kind(info.st_mode)), budget, {})
        except FileNotFoundError:
            return None
        finally:
            if parent != self._dirfd:
                os.close(parent)

    def read(self, path: bytes, *, max_bytes: int) -> bytes:
        """Return the content of a file or the target of a symlink.

        Raises:
            FileNotFoundError, NotADirectoryError, IsADirectoryError, PermissionError, TreeTooLarge.
        """
        parent, name = self._parent(path)
        try:
            info = os.stat(name, dir_fd=parent, follow_symlinks=False)
            if stat.S_ISLNK(info.st_mode):
                content = os.readlink(name, dir_fd=parent)
            elif stat.S_ISREG(info.st_mode):
                content = _read(name, parent, max_bytes)
            elif stat.S_ISDIR(info.st_mode):
                raise IsADirectoryError(errno.EISDIR, "is a folder", path)
            else:
                raise FileNotFoundError(errno.ENOENT, "is not a regular file", path)
        finally:
            if parent != self._dirfd:
                os.close(parent)
        if len(content) > max_bytes:
            raise too_large(f"a file of more than {max_bytes} bytes: {path!r}")
        return content

    def open(self, path: bytes) -> int:
        """Open a regular file for reading; the caller closes the descriptor.

        Raises:
            OSError: there is no regular file at this path.
        """
        fd = open_beneath(self._dirfd, path, FILE)
        if not stat.S_ISREG(os.fstat(fd).st_mode):
            os.close(fd)
            raise FileNotFoundError(errno.ENOENT, "is not a regular file", path)
        return fd

    def _parent(self, path: bytes) -> tuple[int, bytes]:
        """Open the folder that contains `path`. The caller closes the descriptor unless it is the root."""
        parts = split(path)
        if len(parts) == 1:
            return self._dirfd, path
        folder, _, name = path.rpartition(b"/")
        try:
            return open_beneath(self._dirfd, folder, DIRECTORY), name
        except OSError as error:
            if error.errno == errno.ELOOP:  # the path goes through a symlink
                raise NotADirectoryError(errno.ENOTDIR, "goes through a symlink", path) from error
            raise

    def _quick_entry_of(
        self, visit: Visit, budget: Budget, linked: _Linked, read_now: dict[bytes, _Read]
    ) -> Entry | None:
        """Return the entry of a visit, from the last quick listing if the file did not change since."""
        now_ns = time.time_ns()
        try:
            info = os.stat(visit.name, dir_fd=visit.parent, follow_symlinks=False)
        except OSError:
            return self._entry_of(visit, budget, linked)
        key = _key(info)
        known = self._digests.get(visit.path)
        if known is not None and known[0] == key:
            budget.content(info.st_size)
            read_now[visit.path] = known
            return known[1]
        entry = self._entry_of(visit, budget, linked)
        # A file that changed just now may change again without a new change time.
        if entry is not None and entry.size == info.st_size and info.st_ctime_ns < now_ns - _CLOCK_SLACK_NS:
            read_now[visit.path] = (key, entry)
        return entry

    def _entry_of(self, visit: Visit, budget: Budget, linked: _Linked) -> Entry | None:
        """Return the entry of a visit, or None if it vanished meanwhile."""
        try:
            if visit.kind is Kind.SYMLINK:
                target = os.readlink(visit.name, dir_fd=visit.parent)
                return Entry(visit.path, Kind.SYMLINK, False, len(target), hashlib.sha256(target).hexdigest())
            if visit.kind is Kind.SPECIAL:
                return Entry(visit.path, Kind.SPECIAL, False, 0, "")
            return _hash(visit, budget, linked)
        except OSError as error:
            if error.errno in _REFUSED:
                self.problems[visit.path] = f"cannot be read: {error.strerror}"
                return Entry(visit.path, Kind.SPECIAL, False, 0, "")
            if error.errno in _GONE:
                return None
            raise


def _kind(mode: int) -> Kind:
    if stat.S_ISREG(mode):
        return Kind.FILE
    return Kind.SYMLINK if stat.S_ISLNK(mode) else Kind.SPECIAL


def _key(info: os.stat_result) -> tuple[int, ...]:
    return info.st_dev, info.st_ino, info.st_size, info.st_ctime_ns, info.st_mode


def _hash(visit: Visit, budget: Budget, linked: _Linked) -> Entry:
    now_ns = time.time_ns()
    fd = os.open(visit.name, FILE, dir_fd=visit.parent)
    try:
        info = os.fstat(fd)
        if not stat.S_ISREG(info.st_mode):
            return Entry(visit.path, Kind.SPECIAL, False, 0, "")
        budget.content(info.st_size)
        executable = bool(info.st_mode & stat.S_IXUSR)
        if info.st_nlink > 1 and (known := linked.get(_key(info))) is not None:
            return Entry(visit.path, Kind.FILE, executable, info.st_size, known)
        state = hashlib.sha256()
        size = 0
        while chunk := os.read(fd, min(_CHUNK, info.st_size + 1)):
            size += len(chunk)
            if size > info.st_size:
                budget.content(len(chunk))  # the file grows while being read
            state.update(chunk)
        digest = state.hexdigest()
        # A file that changed just now may change again without a new change time.
        if info.st_nlink > 1 and size == info.st_size and info.st_ctime_ns < now_ns - _CLOCK_SLACK_NS:
            linked[_key(info)] = digest
        return Entry(visit.path, Kind.FILE, executable, size, digest)
    finally:
        os.close(fd)


def _read(name: bytes, parent: int, max_bytes: int) -> bytes:
    fd = os.open(name, FILE, dir_fd=parent)
    try:
        info = os.fstat(fd)
        if not stat.S_ISREG(info.st_mode):
            raise FileNotFoundError(errno.ENOENT, "is not a regular file", name)
        if info.st_size > max_bytes:
            raise too_large(f"a file of {info.st_size} bytes (at most {max_bytes} allowed): {name!r}")
        parts: list[bytes] = []
        left = max_bytes + 1
        while left > 0 and (chunk := os.read(fd, min(_CHUNK, left))):
            parts.append(chunk)
            left -= len(chunk)
        return b"".join(parts)
    finally:
        os.close(fd)
