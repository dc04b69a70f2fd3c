"""A walk by directory descriptors: any depth, any names, a bounded number of open files, no recursion."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from dataclasses import dataclass

from agentbench.tree.beneath import DIRECTORY
from agentbench.tree.entry import Entry, Kind
from agentbench.tree.limits import Budget
from agentbench.tree.overlay import Shortcut

_OPEN_FOLDERS = 64
"""Descriptors kept open on the way down; further up a folder is found again through `..` and must be the same one."""


@dataclass(frozen=True, slots=True)
class Visit:
    """Something that is not a folder, as the listing of its folder names it. `parent` is open only until the next step."""

    path: bytes
    name: bytes
    parent: int
    kind: Kind


class _Folder:
    """One folder on the way from the root to where the walk is."""

    __slots__ = ("fd", "identity", "items", "path")

    def __init__(self, fd: int, path: bytes) -> None:
        self.fd = fd
        self.path = path
        self.items: Iterator[tuple[bytes, Kind | None]] = iter(())
        info = os.fstat(fd)
        self.identity = (info.st_dev, info.st_ino)


def walk(dirfd: int, budget: Budget, shortcut: Shortcut, problems: dict[bytes, str]) -> Iterator[Visit | Entry]:
    """Everything below `dirfd` that is not a folder, sorted by path; what the shortcut knows comes as an entry.

    Raises:
        TreeTooLarge: the budget is used up.
        OSError: the file system failed, or a folder was moved while we were in it.
    """
    known = shortcut.enter(b"")
    if known is not None:
        yield from _counted(known, budget)
        return
    stack = [_Folder(os.open(b".", DIRECTORY, dir_fd=dirfd), b"")]
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
                refused = _descend(stack, name, path, budget)
                if refused is not None:
                    shortcut.leave()
                if refused:
                    problems[path] = refused
                    yield Visit(path, name, folder.fd, Kind.SPECIAL)
                continue
            yield shortcut.settled(path, name) or Visit(path, name, folder.fd, kind)
    finally:
        for folder in stack:
            if folder.fd >= 0:
                os.close(folder.fd)


def _counted(entries: Iterator[Entry], budget: Budget) -> Iterator[Entry]:
    for entry in entries:
        budget.entry(entry.path)
        yield entry


def _list(folder: _Folder, budget: Budget) -> Iterator[tuple[bytes, Kind | None]]:
    """Names and kinds (None: a folder) so ordered that whole paths come out sorted: a folder sorts as `name/`."""
    found: list[tuple[bytes, bytes, Kind | None]] = []
    with os.scandir(folder.fd) as items:
        for item in items:
            name = os.fsencode(item.name)
            if not folder.path and name == b".git":
                continue
            budget.entry(folder.path + b"/" + name)
            if item.is_symlink():
                found.append((name, name, Kind.SYMLINK))
            elif item.is_dir(follow_symlinks=False):
                found.append((name + b"/", name, None))
            else:
                found.append((name, name, Kind.FILE if item.is_file(follow_symlinks=False) else Kind.SPECIAL))
    found.sort()
    return iter([(name, kind) for _, name, kind in found])


def _descend(stack: list[_Folder], name: bytes, path: bytes, budget: Budget) -> str | None:
    """Enter a folder, or the reason why it may not be read, which is empty when it vanished meanwhile."""
    try:
        fd = os.open(name, DIRECTORY, dir_fd=stack[-1].fd)
    except OSError as error:
        if error.errno in {errno.EACCES, errno.EPERM}:
            return f"folder cannot be read: {error.strerror}"
        if error.errno in {errno.ENOENT, errno.ENOTDIR, errno.ELOOP}:
            return ""
        raise
    stack.append(_Folder(fd, path))
    stack[-1].items = _list(stack[-1], budget)
    if len(stack) > _OPEN_FOLDERS:
        far = stack[-_OPEN_FOLDERS - 1]
        if far.fd >= 0:
            os.close(far.fd)
        far.fd = -1
    return None


def _ascend(stack: list[_Folder]) -> None:
    """Leave the innermost folder. It is left open until its parent, if that was closed, was found through it."""
    below = stack.pop()
    try:
        if stack and stack[-1].fd < 0:
            fd = os.open(b"..", DIRECTORY, dir_fd=below.fd)
            info = os.fstat(fd)
            if (info.st_dev, info.st_ino) != stack[-1].identity:
                os.close(fd)
                raise OSError(errno.ESTALE, "a folder was moved while it was read", stack[-1].path)
            stack[-1].fd = fd
    finally:
        os.close(below.fd)
