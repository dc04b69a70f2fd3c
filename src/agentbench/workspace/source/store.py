"""The cache folder: locks between processes, scratch space that is swept, and entries that appear whole or not at all."""

from __future__ import annotations

import contextlib
import errno
import os
import stat
import time
from collections.abc import Iterator
from pathlib import Path

from agentbench.core.errors import WorkspaceError
from agentbench.core.file_lock import try_lock

_LOCK_WAIT_SEC = 3600.0
_POLL_SEC = 0.02


@contextlib.contextmanager
def ours(what: str) -> Iterator[None]:
    """Trouble with our own files is our error, whatever the operating system calls it.

    Raises:
        WorkspaceError: instead of OSError.
    """
    try:
        yield
    except OSError as error:
        remedy = ""
        if error.errno in {errno.ENOSPC, errno.EDQUOT}:
            remedy = "free disk space (`ab cache prune`) or set AB_STATE to a folder on another disk"
        elif error.errno in {errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOTDIR}:
            remedy = "set AB_STATE to a folder that can be written"
        raise WorkspaceError(
            f"{what}: {error.strerror or error} ({error.filename or 'cache'})", remedy=remedy
        ) from error


class Store:
    """A cache folder. Everything in it can be read by other users: sandboxes run under a user of their own."""

    def __init__(self, root: Path) -> None:
        """
        Raises:
            WorkspaceError: the folder cannot be made.
        """
        self.root = root
        self._swept = False
        with ours("the cache cannot be used"):
            for folder in (root, self.folder("locks"), self.folder("scratch")):
                make_folder(folder)

    def folder(self, *parts: str) -> Path:
        return self.root.joinpath(*parts)

    @contextlib.contextmanager
    def lock(self, name: str) -> Iterator[None]:
        """Hold a lock against threads and processes. It ends with its holder, however that ends.

        Raises:
            WorkspaceError: it could not be had in an hour.
        """
        with ours("the cache cannot be locked"):
            fd = os.open(self.folder("locks", name), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            deadline = time.monotonic() + _LOCK_WAIT_SEC
            while not try_lock(fd):
                if time.monotonic() > deadline:
                    raise WorkspaceError(f"the cache is locked by another process for too long: {name}")
                time.sleep(_POLL_SEC)
            yield
        finally:
            os.close(fd)

    @contextlib.contextmanager
    def scratch(self) -> Iterator[Path]:
        """An empty folder that is gone afterwards; after a kill, the next process that wants one removes it."""
        with ours("the cache cannot be written"):
            self._sweep()
            folder = self.folder("scratch", f"{os.getpid()}-{os.urandom(8).hex()}")
            folder.mkdir(mode=0o755)
            fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            try_lock(fd)
            yield folder
        finally:
            os.close(fd)
            remove(folder)

    def _sweep(self) -> None:
        """Remove what dead processes left: a folder whose lock nobody holds."""
        if self._swept:
            return
        self._swept = True
        for left in self.folder("scratch").iterdir():
            try:
                fd = os.open(left, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
            except OSError:
                continue
            try:
                # Young ones may belong to a process that has made but not yet locked its folder.
                if time.time() - os.fstat(fd).st_mtime > 60 and try_lock(fd):
                    remove(left)
            finally:
                os.close(fd)


def make_folder(path: Path) -> None:
    """A folder that everybody can enter, whatever the umask."""
    if not path.is_dir():
        path.mkdir(parents=True, exist_ok=True)
        path.chmod(0o755)


def publish(made: Path, target: Path) -> None:
    """Move a finished folder to where others look for it. What is there already stays."""
    make_folder(target.parent)
    try:
        made.rename(target)
    except OSError as error:
        if error.errno not in {errno.ENOTEMPTY, errno.EEXIST}:
            raise


def remove(path: Path) -> None:
    """Remove a tree of ours, however deep, also where its folders may not be written. What is not there is no error."""
    try:
        root = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except FileNotFoundError:
        return
    try:
        # Every folder is first moved to the top, so that no path gets long and nothing has to recurse.
        todo = ["."]
        while todo:
            name = todo.pop()
            if name != ".":
                os.chmod(name, stat.S_IRWXU, dir_fd=root)
            todo += _empty(root, name)
            if name != ".":
                os.rmdir(name, dir_fd=root)
    finally:
        os.close(root)
    path.rmdir()


def _empty(root: int, name: str) -> list[str]:
    """Unlink the files of a folder and move its folders to the top; their names there."""
    fd = os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=root)
    moved: list[str] = []
    try:
        with os.scandir(fd) as items:
            found = [(item.name, item.is_dir(follow_symlinks=False)) for item in items]
        for item, is_folder in found:
            if is_folder:
                os.chmod(item, stat.S_IRWXU, dir_fd=fd)
                moved.append(f"gone-{os.urandom(8).hex()}")
                os.rename(item, moved[-1], src_dir_fd=fd, dst_dir_fd=root)
            else:
                os.unlink(item, dir_fd=fd)
    finally:
        os.close(fd)
    return moved


def open_up(folder: Path) -> None:
    """Make a tree of ours readable by everybody; only the owner's executable bit means anything."""
    for parent, _, files in os.walk(os.fsencode(folder), followlinks=False):
        os.chmod(parent, 0o755)  # noqa: S103 - sandboxes read it under another user
        for name in files:
            path = os.path.join(parent, name)
            mode = os.lstat(path).st_mode
            if stat.S_ISREG(mode):
                os.chmod(path, 0o755 if mode & stat.S_IXUSR else 0o644)
