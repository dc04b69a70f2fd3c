"""Copying trees into frozen layers, and laying what a sandbox wrote over one.

The trees come from repositories and setup commands nobody vetted, but nothing runs in them any more. All access goes
through descriptors of folders, opened without following symlinks, so a link can never lead a copy out of its tree. What
is written belongs to the sandbox's user: an overlay can only be written where its lower layer belongs to who writes.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import stat
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from agentbench.core.errors import SetupFailed

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK
_WRITE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_DEEPEST = 400
_COPY_BYTES = 1 << 26
_OPAQUE = ("trusted.overlay.opaque", "user.overlay.opaque")


@dataclass(slots=True)
class Tally:
    """What a copy did."""

    files: int = 0
    size: int = 0
    skipped: list[bytes] = field(default_factory=list)
    """Sockets, FIFOs, devices: not part of a frozen layer."""


class Freezer:
    """Copies into layers owned by `uid` (None: by us)."""

    def __init__(self, uid: int | None, *, look: Callable[[bytes, int], None] | None = None) -> None:
        """`look` is shown every copied file's path and descriptor before it is taken over."""
        self._uid = uid
        self._look = look
        self.tally = Tally()

    def copy(self, source: int, target: int, *, path: bytes = b"", depth: int = 0) -> None:
        """Everything below the folder `source` into the folder `target`.

        Raises:
            SetupFailed: folders nested deeper than we will follow.
        """
        self._check_depth(path, depth)
        for name, info in _entries(source):
            self._copy_entry(name, info, source, target, path=_join(path, name), depth=depth)
        self._own_folder(source, target)

    def apply(self, upper: int, target: int, *, path: bytes = b"", depth: int = 0) -> None:
        """Lay an overlay's upper folder over `target`.

        Raises:
            SetupFailed: folders nested deeper than we will follow.
        """
        self._check_depth(path, depth)
        for name, info in _entries(upper):
            below = _join(path, name)
            if stat.S_ISDIR(info.st_mode):
                self._apply_folder(name, upper, target, path=below, depth=depth)
                continue
            _remove(name, target)
            if not (stat.S_ISCHR(info.st_mode) and info.st_rdev == 0):  # an overlay's sign for "deleted"
                self._copy_entry(name, info, upper, target, path=below, depth=depth)
        self._own_folder(upper, target)

    def link(self, source: int, target: int) -> None:
        """The same files, hard-linked: for layers that are never written again and belong to the same user."""
        for name, info in _entries(source):
            if stat.S_ISDIR(info.st_mode):
                os.mkdir(name, 0o755, dir_fd=target)
                with _opened(name, source) as below, _opened(name, target) as copy:
                    self.link(below, copy)
            else:
                os.link(name, name, src_dir_fd=source, dst_dir_fd=target, follow_symlinks=False)
        self._own_folder(source, target)

    def add_missing(self, source: int, target: int, *, path: bytes = b"", depth: int = 0) -> None:
        """Files of `source` that `target` does not have; each appears whole or not at all."""
        self._check_depth(path, depth)
        for name, info in _entries(source):
            below = _join(path, name)
            if stat.S_ISDIR(info.st_mode):
                with contextlib.suppress(FileExistsError):
                    os.mkdir(name, 0o755, dir_fd=target)
                    self._own(name, target)
                with _opened(name, source) as new, _opened(name, target) as kept:
                    self.add_missing(new, kept, path=below, depth=depth + 1)
            elif stat.S_ISREG(info.st_mode) and not _exists(name, target):
                hidden = b"." + name + b".new"
                with contextlib.suppress(FileExistsError):
                    self._copy_file(name, info, source, target, path=below, as_name=hidden)
                    os.rename(hidden, name, src_dir_fd=target, dst_dir_fd=target)

    def own(self, folder: os.PathLike[str] | str) -> None:
        """Give one folder of ours to the sandbox's user."""
        if self._uid is not None:
            os.chown(folder, self._uid, self._uid)

    def _apply_folder(self, name: bytes, upper: int, target: int, *, path: bytes, depth: int) -> None:
        with _opened(name, upper) as source:
            if _opaque(source) or not _is_folder(name, target):
                _remove(name, target)
                os.mkdir(name, 0o755, dir_fd=target)
            with _opened(name, target) as copy:
                self.apply(source, copy, path=path, depth=depth + 1)

    def _copy_entry(
        self, name: bytes, info: os.stat_result, source: int, target: int, *, path: bytes, depth: int
    ) -> None:
        if stat.S_ISDIR(info.st_mode):
            os.mkdir(name, 0o755, dir_fd=target)
            with _opened(name, source) as below, _opened(name, target) as copy:
                self.copy(below, copy, path=path, depth=depth + 1)
        elif stat.S_ISLNK(info.st_mode):
            os.symlink(os.readlink(name, dir_fd=source), name, dir_fd=target)
            self._own(name, target)
            self.tally.files += 1
        elif stat.S_ISREG(info.st_mode):
            self._copy_file(name, info, source, target, path=path)
        else:
            self.tally.skipped.append(path)

    def _copy_file(
        self, name: bytes, info: os.stat_result, source: int, target: int, *, path: bytes, as_name: bytes = b""
    ) -> None:
        if not info.st_mode & stat.S_IRUSR:
            os.chmod(name, stat.S_IMODE(info.st_mode) | stat.S_IRUSR, dir_fd=source)  # ours to read, at rest
        with _descriptor(os.open(name, _READ, dir_fd=source)) as reader:
            if self._look is not None:
                self._look(path, reader)
                os.lseek(reader, 0, os.SEEK_SET)
            with _descriptor(os.open(as_name or name, _WRITE, 0o600, dir_fd=target)) as writer:
                self.tally.size += _pump(reader, writer)
                if self._uid is not None:
                    os.fchown(writer, self._uid, self._uid)
                # No set-uid, no set-gid: they would mean nothing inside and much outside.
                os.fchmod(writer, stat.S_IMODE(info.st_mode) & 0o1777 | 0o600)
                os.utime(writer, ns=(info.st_mtime_ns, info.st_mtime_ns))
        self.tally.files += 1

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
        if depth > _DEEPEST:
            msg = f"folders nested deeper than {_DEEPEST}: {path[:80].decode('utf-8', 'backslashreplace')}…"
            raise SetupFailed(msg)


def open_folder(path: str | os.PathLike[str]) -> int:
    return os.open(path, _FOLDER)


@contextlib.contextmanager
def folder(path: str | os.PathLike[str], *, below: int | None = None) -> Iterator[int]:
    with _descriptor(os.open(path, _FOLDER, dir_fd=below)) as fd:
        yield fd


@contextlib.contextmanager
def _descriptor(fd: int) -> Iterator[int]:
    try:
        yield fd
    finally:
        os.close(fd)


@contextlib.contextmanager
def _opened(name: bytes, folder: int) -> Iterator[int]:
    mode = stat.S_IMODE(os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode)
    if mode & stat.S_IRWXU != stat.S_IRWXU:
        os.chmod(name, mode | stat.S_IRWXU, dir_fd=folder)  # made unusable by its owner, who is at rest
    with _descriptor(os.open(name, _FOLDER, dir_fd=folder)) as fd:
        yield fd


def _entries(folder: int) -> list[tuple[bytes, os.stat_result]]:
    with os.scandir(folder) as items:
        found = [(os.fsencode(item.name), item.stat(follow_symlinks=False)) for item in items]
    return sorted(found, key=lambda pair: pair[0])


def _join(path: bytes, name: bytes) -> bytes:
    return path + b"/" + name if path else name


def _is_folder(name: bytes, folder: int) -> bool:
    try:
        return stat.S_ISDIR(os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode)
    except FileNotFoundError:
        return False


def _exists(name: bytes, folder: int) -> bool:
    try:
        os.stat(name, dir_fd=folder, follow_symlinks=False)
    except FileNotFoundError:
        return False
    return True


def _opaque(folder: int) -> bool:
    """A folder that hides what the lower layers have at its place."""
    for name in _OPAQUE:
        with contextlib.suppress(OSError):
            if os.getxattr(folder, name) == b"y":
                return True
    return False


def _remove(name: bytes, folder: int) -> None:
    """Whatever is there, if anything."""
    if _is_folder(name, folder):
        with _opened(name, folder) as below:
            for child, _ in _entries(below):
                _remove(child, below)
        os.rmdir(name, dir_fd=folder)
        return
    with contextlib.suppress(FileNotFoundError):
        os.unlink(name, dir_fd=folder)


def _pump(reader: int, writer: int) -> int:
    total = 0
    try:
        while count := os.copy_file_range(reader, writer, _COPY_BYTES):
            total += count
    except OSError:
        if total:
            raise
        # Not between these two file systems: by hand, from the start.
        with open(reader, "rb", closefd=False) as source, open(writer, "wb", closefd=False) as target:
            shutil.copyfileobj(source, target, 1 << 20)
            total = target.tell()
    return total
