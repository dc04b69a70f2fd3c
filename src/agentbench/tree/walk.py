"""Walks trees by directory descriptors: any depth, any names, bounded open files, no recursion."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator

from agentbench.core.dataclass import dataclass
from agentbench.tree.beneath import DIRECTORY
from agentbench.tree.entry import Entry, Kind
from agentbench.tree.limits import Budget
from agentbench.tree.overlay import Shortcut

_OPEN_FOLDERS = 64
"""Open descriptors on the way down. Folders further up are reopened through `..` and must be the same."""


@dataclass(frozen=True, slots=True)
class Visit:
    """An entry that is not a folder. `parent` is open only until the next step."""

    path: bytes
    name: bytes
    parent: int
    kind: Kind


class _Folder:
    """A folder between the root and the current position."""

    __slots__ = ("fd", "identity", "items", "path")

    def __init__(self, fd: int, path: bytes) -> None:
        self.fd = fd
        self.path = path
        self.items: Iterator[tuple[bytes, Kind | None]] = iter(())
        info = os.fstat(fd)
        self.identity = (info.st_dev, info.st_ino)


def walk(dirfd: int, budget: Budget, shortcut: Shortcut, problems: dict[bytes, str]) -> Iterator[Visit | Entry]:
    """Yield everything below `dirfd` that is not a folder, sorted by path; entries known to the shortcut as `Entry`.

    Raises:
        TreeTooLarge: the tree exceeds its limits.
        OSError: the file system failed, or a folder was moved during the walk.
    """
    known = shortcut.enter(b"")
    if known is not None:
        yield from _counted(known, budget)
        return
    stack = [_Folder(_open_root(dirfd), b"")]
    try:
        stack[0].items = _list(stack[0], budget)
        while stack:
            folder = stack[-1]
            item = next(folder.items, None)
            if item is None:
                _ascend(stack)
                shortcut.leave()
                continue
            name, kind = item
            path = folder.path + b"/" + name if folder.path else name
            if kind is None:
                known = shortcut.enter(path)
                if known is not None:
                    yield from _counted(known, budget)
                    continue
                problem = _descend(stack, name, path, budget)
                if problem is not None:
                    shortcut.leave()
                if problem:
                    problems[path] = problem
                    yield Visit(path, name, folder.fd, Kind.SPECIAL)
                continue
            yield shortcut.known_entry(path, name) or Visit(path, name, folder.fd, kind)
    finally:
        for folder in stack:
            if folder.fd >= 0:
                os.close(folder.fd)


def _open_root(dirfd: int) -> int:
    """Open the root, even if a program in a sandbox of an ordinary user, who owns it, took away the right to read it."""
    try:
        return os.open(b".", DIRECTORY, dir_fd=dirfd)
    except PermissionError:
        os.fchmod(dirfd, stat.S_IMODE(os.fstat(dirfd).st_mode) | stat.S_IRUSR | stat.S_IXUSR)
        return os.open(b".", DIRECTORY, dir_fd=dirfd)


def _counted(entries: Iterator[Entry], budget: Budget) -> Iterator[Entry]:
    for entry in entries:
        budget.entry(entry.path)
        yield entry


def _list(folder: _Folder, budget: Budget) -> Iterator[tuple[bytes, Kind | None]]:
    """List names and kinds (None: folder) so that full paths are sorted: a folder sorts as `name/`."""
    listed: list[tuple[bytes, bytes, Kind | None]] = []
    with os.scandir(folder.fd) as items:
        for item in items:
            name = os.fsencode(item.name)
            if not folder.path and name == b".git":
                continue
            budget.entry(folder.path + b"/" + name)
            if item.is_symlink():
                listed.append((name, name, Kind.SYMLINK))
            elif item.is_dir(follow_symlinks=False):
                listed.append((name + b"/", name, None))
            else:
                listed.append((name, name, Kind.FILE if item.is_file(follow_symlinks=False) else Kind.SPECIAL))
    listed.sort()
    return iter([(name, kind) for _, name, kind in listed])


def _descend(stack: list[_Folder], name: bytes, path: bytes, budget: Budget) -> str | None:
    """Enter a folder. Return why it cannot be read; empty if it vanished meanwhile."""
    try:
        fd = os.open(name, DIRECTORY, dir_fd=stack[-1].fd)
    except OSError as error:
        if error.errno in {errno.EACCES, errno.EPERM}:
            return f"cannot read the folder: {error.strerror}"
        if error.errno in {errno.ENOENT, errno.ENOTDIR, errno.ELOOP}:
            return ""
        raise
    stack.append(_Folder(fd, path))
    stack[-1].items = _list(stack[-1], budget)
    if len(stack) > _OPEN_FOLDERS:
        distant = stack[-_OPEN_FOLDERS - 1]
        if distant.fd >= 0:
            os.close(distant.fd)
        distant.fd = -1
    return None


def _ascend(stack: list[_Folder]) -> None:
    """Leave the innermost folder. If its parent was closed, reopen it through `..` first."""
    below = stack.pop()
    try:
        if stack and stack[-1].fd < 0:
            fd = os.open(b"..", DIRECTORY, dir_fd=below.fd)
            info = os.fstat(fd)
            if (info.st_dev, info.st_ino) != stack[-1].identity:
                os.close(fd)
                raise OSError(errno.ESTALE, "a folder was moved while being read", stack[-1].path)
            stack[-1].fd = fd
    finally:
        os.close(below.fd)
