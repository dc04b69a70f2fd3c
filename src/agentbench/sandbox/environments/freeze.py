"""Copy trees into frozen layers, and apply what a sandbox wrote to a layer.

The trees come from untrusted repositories and setup commands, but nothing runs in them any more. All access goes through
folder descriptors opened without following symlinks, so a link can never lead a copy out of its tree. Copies belong to the
sandbox's user, because an overlay is writable only where the writer owns its lower layer.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import stat
from collections.abc import Callable, Iterator

from agentbench.core.errors import SetupFailed

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK
_WRITE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_MAX_DEPTH = 400
_COPY_BYTES = 1 << 26
_OPAQUE = ("trusted.overlay.opaque", "user.overlay.opaque")


class Freezer:
    """Copies files into layers that `uid` owns (None: the harness's own user)."""

    def __init__(self, uid: int | None, *, scan: Callable[[bytes, int], None] | None = None) -> None:
        """`scan` gets the path and the descriptor of every file before it is copied."""
        self._uid = uid
        self._scan = scan

    def copy(self, source: int, target: int, *, path: bytes = b"", depth: int = 0) -> None:
        """Copy everything below the folder `source` into the folder `target`, except sockets, FIFOs and devices.

        Raises:
            SetupFailed: folders are nested too deep.
        """
        self._check_depth(path, depth)
        for name, info in _entries(source):
            self._copy_entry(name, info, source, target, path=_join(path, name), depth=depth)
        self._own_folder(source, target)

    def apply(self, upper: int, target: int, *, path: bytes = b"", depth: int = 0) -> None:
        """Apply an overlay's upper folder to `target`.

        Raises:
            SetupFailed: folders are nested too deep.
        """
        self._check_depth(path, depth)
        for name, info in _entries(upper):
            below = _join(path, name)
            if stat.S_ISDIR(info.st_mode):
                self._apply_folder(name, upper, target, path=below, depth=depth)
                continue
            _remove(name, target)
            if not (stat.S_ISCHR(info.st_mode) and info.st_rdev == 0):  # an overlay marks a deleted file like this
                self._copy_entry(name, info, upper, target, path=below, depth=depth)
        self._own_folder(upper, target)

    def link(self, source: int, target: int) -> None:
        """Hard-link all files: for layers that are never written again and belong to the same user."""
        for name, info in _entries(source):
            if stat.S_ISDIR(info.st_mode):
                os.mkdir(name, 0o755, dir_fd=target)
                with _open_child(name, source) as below, _open_child(name, target) as copy:
                    self.link(below, copy)
            else:
                os.link(name, name, src_dir_fd=source, dst_dir_fd=target, follow_symlinks=False)
        self._own_folder(source, target)

    def add_missing(self, source: int, target: int, *, path: bytes = b"", depth: int = 0) -> None:
        """Copy the files of `source` that `target` does not have, each atomically."""
        self._check_depth(path, depth)
        for name, info in _entries(source):
            below = _join(path, name)
            if stat.S_ISDIR(info.st_mode):
                with contextlib.suppress(FileExistsError):
                    os.mkdir(name, 0o755, dir_fd=target)
                    self._own(name, target)
                with _open_child(name, source) as new, _open_child(name, target) as kept:
                    self.add_missing(new, kept, path=below, depth=depth + 1)
            elif stat.S_ISREG(info.st_mode) and not _mode(name, target):
                hidden = b"." + name + b".new"
                with contextlib.suppress(FileExistsError):
                    self._copy_file(name, info, source, target, path=below, as_name=hidden)
                    os.rename(hidden, name, src_dir_fd=target, dst_dir_fd=target)

    def own(self, folder: os.PathLike[str] | str) -> None:
        """Give one folder to the sandbox's user."""
        if self._uid is not None:
            os.chown(folder, self._uid, self._uid)

    def _apply_folder(self, name: bytes, upper: int, target: int, *, path: bytes, depth: int) -> None:
        with _open_child(name, upper) as source:
            if _is_opaque(source) or not stat.S_ISDIR(_mode(name, target)):
                _remove(name, target)
                os.mkdir(name, 0o755, dir_fd=target)
            with _open_child(name, target) as copy:
                self.apply(source, copy, path=path, depth=depth + 1)

    def _copy_entry(
        self, name: bytes, info: os.stat_result, source: int, target: int, *, path: bytes, depth: int
    ) -> None:
        if stat.S_ISDIR(info.st_mode):
            os.mkdir(name, 0o755, dir_fd=target)
            with _open_child(name, source) as below, _open_child(name, target) as copy:
                self.copy(below, copy, path=path, depth=depth + 1)
        elif stat.S_ISLNK(info.st_mode):
            os.symlink(os.readlink(name, dir_fd=source), name, dir_fd=target)
            self._own(name, target)
        elif stat.S_ISREG(info.st_mode):
            self._copy_file(name, info, source, target, path=path)

    def _copy_file(
        self, name: bytes, info: os.stat_result, source: int, target: int, *, path: bytes, as_name: bytes = b""
    ) -> None:
        if not info.st_mode & stat.S_IRUSR:
            os.chmod(name, stat.S_IMODE(info.st_mode) | stat.S_IRUSR, dir_fd=source)  # nothing runs here any more
        with _descriptor(os.open(name, _READ, dir_fd=source)) as reader:
            if self._scan is not None:
                self._scan(path, reader)
                os.lseek(reader, 0, os.SEEK_SET)
            with _descriptor(os.open(as_name or name, _WRITE, 0o600, dir_fd=target)) as writer:
                _copy_content(reader, writer)
                if self._uid is not None:
                    os.fchown(writer, self._uid, self._uid)
                # Without set-uid and set-gid: meaningless inside a sandbox, dangerous on the host.
                os.fchmod(writer, stat.S_IMODE(info.st_mode) & 0o1777 | 0o600)
                os.utime(writer, ns=(info.st_mtime_ns, info.st_mtime_ns))

    def _own_folder(self, source: int, target: int) -> None:
        info = os.fstat(source)
        if self._uid is not None:
            os.fchown(target, self._uid, self._uid)
        os.fchmod(target, stat.S_IMODE(info.st_mode) & 0o1777 | 0o700)
        os.utime(target, ns=(info.st_mtime_ns, info.st_mtime_ns))

    def _own(self, name: bytes, folder: int) -> None:
        if self._uid is not None:
            os.chown(name, self._uid, self._uid, dir_fd=folder, follow_symlinks=False)

    @staticmethod
    def _check_depth(path: bytes, depth: int) -> None:
        if depth > _MAX_DEPTH:
            msg = f"folders nested deeper than {_MAX_DEPTH}: {path[:80].decode('utf-8', 'backslashreplace')}…"
            raise SetupFailed(msg)


@contextlib.contextmanager
def open_folder(path: str | os.PathLike[str], *, below: int | None = None) -> Iterator[int]:
    with _descriptor(os.open(path, _FOLDER, dir_fd=below)) as fd:
        yield fd


@contextlib.contextmanager
def _descriptor(fd: int) -> Iterator[int]:
    try:
        yield fd
    finally:
        os.close(fd)


@contextlib.contextmanager
def _open_child(name: bytes, folder: int) -> Iterator[int]:
    mode = stat.S_IMODE(os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode)
    if mode & stat.S_IRWXU != stat.S_IRWXU:
        os.chmod(name, mode | stat.S_IRWXU, dir_fd=folder)  # setup took the rights away, and nothing runs any more
    with _descriptor(os.open(name, _FOLDER, dir_fd=folder)) as fd:
        yield fd


def _entries(folder: int) -> list[tuple[bytes, os.stat_result]]:
    with os.scandir(folder) as items:
        entries = [(os.fsencode(item.name), item.stat(follow_symlinks=False)) for item in items]
    return sorted(entries, key=lambda entry: entry[0])


def _join(path: bytes, name: bytes) -> bytes:
    return path + b"/" + name if path else name


def _mode(name: bytes, folder: int) -> int:
    """Return the mode of an entry, or 0 if there is none."""
    try:
        return os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode
    except FileNotFoundError:
        return 0


def _is_opaque(folder: int) -> bool:
    """Return whether a folder hides the folder of the same name in lower layers."""
    for name in _OPAQUE:
        with contextlib.suppress(OSError):
            if os.getxattr(folder, name) == b"y":
                return True
    return False


def _remove(name: bytes, folder: int) -> None:
    """Remove a file or a folder, if it exists."""
    if stat.S_ISDIR(_mode(name, folder)):
        with _open_child(name, folder) as below:
            for child, _ in _entries(below):
                _remove(child, below)
        os.rmdir(name, dir_fd=folder)
        return
    with contextlib.suppress(FileNotFoundError):
        os.unlink(name, dir_fd=folder)


def _copy_content(reader: int, writer: int) -> None:
    copied = 0
    try:
        while count := os.copy_file_range(reader, writer, _COPY_BYTES):
            copied += count
    except OSError:
        if copied:
            raise
        # The kernel cannot copy between these two file systems.
        with open(reader, "rb", closefd=False) as source, open(writer, "wb", closefd=False) as target:
            shutil.copyfileobj(source, target, 1 << 20)
