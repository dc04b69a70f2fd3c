"""Opens paths beneath a folder without following symlinks.

`openat2` lets the kernel enforce this in one call. If it is not available (old kernels, strict seccomp profiles) or the path is
longer than PATH_MAX, each part is opened with O_NOFOLLOW, which gives the same guarantee.
"""

from __future__ import annotations

import ctypes
import errno
import os

_SYS_OPENAT2 = 437  # the same number on every architecture
_RESOLVE_NO_MAGICLINKS = 0x02
_RESOLVE_NO_SYMLINKS = 0x04
_RESOLVE_BENEATH = 0x08
_PATH_MAX = 4096

DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK
FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY
"""O_NONBLOCK: a FIFO in place of a file must not block; the caller checks fstat before reading."""


class _OpenHow(ctypes.Structure):
    _fields_ = (("flags", ctypes.c_uint64), ("mode", ctypes.c_uint64), ("resolve", ctypes.c_uint64))


_libc = ctypes.CDLL(None, use_errno=True)


def _openat2(dirfd: int, path: bytes, flags: int) -> int:
    how = _OpenHow(flags, 0, _RESOLVE_BENEATH | _RESOLVE_NO_SYMLINKS | _RESOLVE_NO_MAGICLINKS)
    result = int(
        _libc.syscall(
            ctypes.c_long(_SYS_OPENAT2),
            ctypes.c_int(dirfd),
            ctypes.c_char_p(path),
            ctypes.byref(how),
            ctypes.c_size_t(ctypes.sizeof(how)),
        )
    )
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), path)
    return result


def _supported() -> bool:
    try:
        fd = os.open("/", DIRECTORY)
    except OSError:
        return False
    try:
        os.close(_openat2(fd, b".", DIRECTORY))
    except OSError:
        return False
    finally:
        os.close(fd)
    return True


HAS_OPENAT2 = _supported()


def split(path: bytes) -> list[bytes]:
    """Split a relative path.

    Raises:
        ValueError: the path is empty, absolute, or has an empty, `.` or `..` part or a NUL.
    """
    parts = path.split(b"/")
    if b"\0" in path or any(part in {b"", b".", b".."} for part in parts):
        raise ValueError(f"not a plain relative path: {path!r}")
    return parts


def open_beneath(dirfd: int, path: bytes, flags: int = FILE) -> int:
    """Open `path` beneath `dirfd`.

    Raises:
        OSError: as open(2); ELOOP or ENOTDIR if the path goes through a symlink.
        ValueError: the path is not a plain relative path.
    """
    parts = split(path)
    if HAS_OPENAT2 and len(path) < _PATH_MAX:
        try:
            return _openat2(dirfd, path, flags)
        except OSError as error:
            # The lookup raced with a rename, or the system call is not permitted: open part by part.
            if error.errno not in {errno.EAGAIN, errno.ENOSYS, errno.EPERM}:
                raise
    return _open_by_parts(dirfd, parts, flags)


def _open_by_parts(dirfd: int, parts: list[bytes], flags: int) -> int:
    current = dirfd
    try:
        for part in parts[:-1]:
            below = os.open(part, DIRECTORY, dir_fd=current)
            if current != dirfd:
                os.close(current)
            current = below
        return os.open(parts[-1], flags | os.O_NOFOLLOW, dir_fd=current)
    finally:
        if current != dirfd:
            os.close(current)
