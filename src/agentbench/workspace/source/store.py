"""The cache folder: locks between processes, scratch folders, and entries that appear completely or not at all."""

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
def as_workspace_error(action: str) -> Iterator[None]:
    """Raise WorkspaceError, with `action` as the message, instead of OSError."""
    try:
        yield
    except OSError as error:
        remedy = ""
        if error.errno in {errno.ENOSPC, errno.EDQUOT}:
            remedy = "free disk space (`ab cache prune`) or set AB_STATE to a folder on another disk"
        elif error.errno in {errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOTDIR}:
            remedy = "set AB_STATE to a writable folder"
        raise WorkspaceError(
            f"{action}: {error.strerror or error} ({error.filename or 'cache'})", remedy=remedy
        ) from error


class Store:
    """A cache folder. Other users can read everything in it, because sandboxes run as another user."""

    def __init__(self, root: Path) -> None:
        """
        Raises:
            WorkspaceError: the folder cannot be created.
        """
        self.root = root
        self._swept = False
        with as_workspace_error("cannot use the cache"):
            for folder in (root, self.folder("locks"), self.folder("scratch")):
                make_folder(folder)

    def folder(self, *parts: str) -> Path:
        return self.root.joinpath(*parts)

    @contextlib.contextmanager
    def lock(self, name: str) -> Iterator[None]:
        """Hold a lock against other threads and processes. The system releases it if this process dies.

        Raises:
            WorkspaceError: the lock was not free within an hour.
        """
        with as_workspace_error("cannot lock the cache"):
            fd = os.open(self.folder("locks", name), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            deadline = time.monotonic() + _LOCK_WAIT_SEC
            while not try_lock(fd):
                if time.monotonic() > deadline:
                    raise WorkspaceError(
                        f"another process held the cache lock {name} for more than {_LOCK_WAIT_SEC:.0f} s"
                    )
                time.sleep(_POLL_SEC)
            yield
        finally:
            os.close(fd)

    @contextlib.contextmanager
    def scratch(self) -> Iterator[Path]:
        """Create an empty folder and remove it afterwards. A later process removes the folders of killed processes."""
        with as_workspace_error("cannot write to the cache"):
            self._sweep()
            folder = self.folder("scratch", f"{os.getpid()}-{os.urandom(8).hex()}")
            folder.mkdir(mode=0o755)
            fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            try_lock(fd)
            yield folder
        finally:
            os.close(fd)
            remove_tree(folder)

    def _sweep(self) -> None:
        """Remove the scratch folders of dead processes, which hold no lock."""
        if self._swept:
            return
        self._swept = True
        for folder in self.folder("scratch").iterdir():
            try:
                fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
            except OSError:
                continue
            try:
                # A young folder may belong to a process that has created but not yet locked it.
                if time.time() - os.fstat(fd).st_mtime > 60 and try_lock(fd):
                    remove_tree(folder)
            finally:
                os.close(fd)


def make_folder(path: Path) -> None:
    """Create a folder that every user can enter, whatever the umask."""
    if not path.is_dir():
        path.mkdir(parents=True, exist_ok=True)
        path.chmod(0o755)


def publish(folder: Path, target: Path) -> None:
    """Move a finished folder to its place in the cache. An existing one stays."""
    make_folder(target.parent)
    try:
        folder.rename(target)
    except OSError as error:
        if error.errno not in {errno.ENOTEMPTY, errno.EEXIST}:
            raise


def remove_tree(path: Path) -> None:
    """Remove a folder of the cache, however deep, including folders without write permission. It need not exist."""
    try:
        root = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except FileNotFoundError:
        return
    try:
        # Subfolders are moved to the top first, so that paths stay short and nothing recurses.
        pending = ["."]
        while pending:
            name = pending.pop()
            if name != ".":
                os.chmod(name, stat.S_IRWXU, dir_fd=root)
            pending += _empty(root, name)
            if name != ".":
                os.rmdir(name, dir_fd=root)
    finally:
        os.close(root)
    path.rmdir()


def _empty(root: int, folder: str) -> list[str]:
    """Unlink the files of a folder and move its subfolders to the top. Return their new names."""
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=root)
    moved: list[str] = []
    try:
        with os.scandir(fd) as items:
            listed = [(item.name, item.is_dir(follow_symlinks=False)) for item in items]
        for name, is_folder in listed:
            if is_folder:
                os.chmod(name, stat.S_IRWXU, dir_fd=fd)
                moved.append(f"gone-{os.urandom(8).hex()}")
                os.rename(name, moved[-1], src_dir_fd=fd, dst_dir_fd=root)
            else:
                os.unlink(name, dir_fd=fd)
    finally:
        os.close(fd)
    return moved


def make_readable(folder: Path) -> None:
    """Make a tree of the cache readable by every user. Only the owner's executable bit is kept."""
    for parent, _, files in os.walk(os.fsencode(folder), followlinks=False):
        os.chmod(parent, 0o755)  # noqa: S103 - sandboxes read it as another user
        for name in files:
            path = os.path.join(parent, name)
            mode = os.lstat(path).st_mode
            if stat.S_ISREG(mode):
                os.chmod(path, 0o755 if mode & stat.S_IXUSR else 0o644)
