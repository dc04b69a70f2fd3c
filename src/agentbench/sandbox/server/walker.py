"""Lists, digests and reads a folder for a host that cannot read the sandbox's files directly.

Symlinks are never followed: each part of a path is opened relative to the one before it. A listing is built in pieces,
so that the server can handle other requests in between and never holds more than one piece in memory.

Files that did not change since the sandbox started are not digested again. On an overlay, writing to a file of a lower
layer copies it, the copy's change time is the moment of copying, and nothing inside can set that time or the clock.
"""

from __future__ import annotations

import hashlib
import posix
import sys
import time

from agentbench.sandbox.server.capture import number, pack

FOLDER = posix.O_RDONLY | posix.O_DIRECTORY | posix.O_NOFOLLOW | posix.O_CLOEXEC
FILE = posix.O_RDONLY | posix.O_NOFOLLOW | posix.O_NONBLOCK | posix.O_NOCTTY | posix.O_CLOEXEC
S_IFMT, S_IFDIR, S_IFREG, S_IFLNK = 0o170000, 0o040000, 0o100000, 0o120000
EACCES, ENOENT, ENOTDIR, ELOOP = 13, 2, 20, 40
PIECE_BYTES = 256 * 1024
PIECE_SEC = 0.25
CHUNK = 1 << 20
PATH_BYTES = 8192
CLOCK_SLACK_NS = 20_000_000
"""Change times come from a coarse clock, which advances every few milliseconds."""
KNOWN = pack([b"k", b"", b"", b""])
ENCODING = sys.getfilesystemencoding()


def unchanged_since(started: tuple[int, int]) -> int:
    """Return the server's start time, or 0 if the wall clock was set since then and change times prove nothing."""
    elapsed = time.monotonic_ns() - started[1]
    steady = abs(time.time_ns() - started[0] - elapsed) < CLOCK_SLACK_NS
    return started[0] - CLOCK_SLACK_NS if steady else 0


MAX_DIGESTS = 20_000
Digests = dict[tuple[int, int, int, int], bytes]
"""Digests of files by device, inode, size and change time."""


class Walk:
    """A listing that is read piece by piece. It omits the folder `.git` at the root."""

    def __init__(self, root: bytes, max_bytes: int, since_ns: int, digests: Digests | None = None) -> None:
        """
        `since_ns`: files last changed before this time are listed as kind `k`, without a digest (0: none).
        `digests`: files are not read again if they are in here; those that are read are added.
        """
        self.remaining = max_bytes
        self.since_ns = since_ns
        self.digests = digests
        self.settled_ns = time.time_ns() - CLOCK_SLACK_NS
        self.stack: list[tuple[int, bytes, list[tuple[bytes, bytes, bytes]]]] = []
        self.enter(open_folder(root, None), b"")

    def piece(self) -> list[bytes]:
        """Return [b"more" | b"end" | b"large", packed entries]; an entry is path, kind, executable, size, digest."""
        entries: list[bytes] = []
        size = 0
        deadline = time.monotonic() + PIECE_SEC
        while self.stack:
            entry = self.next()
            if entry is not None:
                entries.append(pack_known(entry[0]) if entry[1] == b"k" else pack(entry))
                size += len(entries[-1])
            if self.remaining < 0:
                self.close()
                return [b"large", pack(entries)]
            if size > PIECE_BYTES or time.monotonic() > deadline:
                return [b"more", pack(entries)]
        return [b"end", pack(entries)]

    def close(self) -> None:
        for fd, _, _ in self.stack:
            posix.close(fd)
        self.stack = []

    def next(self) -> list[bytes] | None:
        """Take one step. Return an entry, or None if a folder was entered or left or a file vanished."""
        fd, path, names = self.stack[-1]
        if not names:
            posix.close(fd)
            self.stack.pop()
            return None
        _, name, kind = names.pop()
        path = path + b"/" + name if path else name
        if len(path) > PATH_BYTES:
            self.remaining = -1
            return None
        try:
            if kind == b"d":
                self.enter(open_folder(name, fd), path)
                return None
            return self.describe(name, kind, fd, path)
        except OSError as error:
            if error.errno in (ENOENT, ENOTDIR, ELOOP):
                return None
            return [path, b"s", b"0", b"0", b""]

    def enter(self, fd: int, path: bytes) -> None:
        names = []
        with posix.scandir(fd) as items:
            for item in items:
                name = item.name.encode(ENCODING, "surrogateescape")
                if not path and name == b".git":
                    continue
                if item.is_symlink():
                    names.append((name, name, b"l"))
                elif item.is_dir(follow_symlinks=False):
                    names.append((name + b"/", name, b"d"))  # sorts whole paths
                else:
                    names.append((name, name, b"f" if item.is_file(follow_symlinks=False) else b"s"))
        names.sort(reverse=True)
        self.stack.append((fd, path, names))

    def describe(self, name: bytes, kind: bytes, parent: int, path: bytes) -> list[bytes]:
        if kind == b"l":
            target = link_target(name, parent)
            return [path, kind, b"0", number(len(target)), hashlib.sha256(target).hexdigest().encode()]
        if kind == b"s":
            return [path, kind, b"0", b"0", b""]
        if self.since_ns:
            info = posix.stat(name, dir_fd=parent, follow_symlinks=False)
            if info.st_mode & S_IFMT == S_IFREG and info.st_ctime_ns < self.since_ns:
                return [path, b"k", b"", b"", b""]
            if self.digests and (known := self.digests.get(file_key(info))):
                self.remaining -= info.st_size
                return [path, b"f", executable(info), number(info.st_size), known]
        return self.read(name, parent, path)

    def read(self, name: bytes, parent: int, path: bytes) -> list[bytes]:
        fd = open_file(name, parent)
        try:
            info = posix.fstat(fd)
            if info.st_mode & S_IFMT != S_IFREG:
                return [path, b"s", b"0", b"0", b""]
            self.remaining -= info.st_size
            if self.remaining < 0:
                return [path, b"s", b"0", b"0", b""]
            size, digest = digest_of(fd)
            self.keep(info, size, digest)
            return [path, b"f", executable(info), number(size), digest]
        finally:
            posix.close(fd)

    def keep(self, info: posix.stat_result, size: int, digest: bytes) -> None:
        """Keep a digest. A file that changed just now may change again without a new change time."""
        if self.digests is not None and size == info.st_size and info.st_ctime_ns < self.settled_ns:
            if len(self.digests) >= MAX_DIGESTS:
                self.digests.clear()
            self.digests[file_key(info)] = digest


def pack_known(path: bytes) -> bytes:
    """Encode an entry of kind `k`. Most entries are, so this is quicker than `pack`."""
    return len(path).to_bytes(4, "big") + path + KNOWN


def file_key(info: posix.stat_result) -> tuple[int, int, int, int]:
    return info.st_dev, info.st_ino, info.st_size, info.st_ctime_ns


def executable(info: posix.stat_result) -> bytes:
    return b"1" if info.st_mode & 0o100 else b"0"


def digest_of(fd: int) -> tuple[int, bytes]:
    """Return the size and the digest of what can be read."""
    digest = hashlib.sha256()
    size = 0
    while chunk := posix.read(fd, CHUNK):
        size += len(chunk)
        digest.update(chunk)
    return size, digest.hexdigest().encode()


def link_target(name: bytes, parent: int) -> bytes:
    return posix.readlink(name, dir_fd=parent)


def open_folder(name: bytes, parent: int | None) -> int:
    """Open a folder even if its owner made it unreadable. The server runs as the owner. `name` is a path without `parent`."""
    try:
        return posix.open(name, FOLDER, dir_fd=parent)
    except OSError as error:
        if error.errno != EACCES:
            raise
    unlock(name, parent, S_IFDIR, 0o500)
    return posix.open(name, FOLDER, dir_fd=parent)


def open_file(name: bytes, parent: int) -> int:
    try:
        return posix.open(name, FILE, dir_fd=parent)
    except OSError as error:
        if error.errno != EACCES:
            raise
    mode = unlock(name, parent, S_IFREG, 0o400)
    try:
        return posix.open(name, FILE, dir_fd=parent)
    finally:
        posix.chmod(name, mode, dir_fd=parent)


def unlock(name: bytes, parent: int | None, kind: int, bits: int) -> int:
    mode = posix.stat(name, dir_fd=parent, follow_symlinks=False).st_mode
    if mode & S_IFMT == kind:
        posix.chmod(name, mode & 0o7777 | bits, dir_fd=parent)
    return mode & 0o7777


def read(root: bytes, path: bytes, offset: int, count: int) -> list[bytes]:
    """Return [b"file", size, content], [b"link", target] or [b"absent"|b"folder"|b"other"|b"through"|b"denied"]."""
    parts = path.split(b"/")
    if any(part in (b"", b".", b"..") for part in parts):
        return [b"absent"]
    try:
        current = open_folder(root, None)
    except OSError:
        return [b"absent"]
    try:
        for part in parts[:-1]:
            below = open_folder(part, current)
            posix.close(current)
            current = below
        return read_entry(parts[-1], current, offset, count)
    except OSError as error:
        return [{ENOENT: b"absent", ENOTDIR: b"through", ELOOP: b"through"}.get(error.errno or 0, b"denied")]
    finally:
        posix.close(current)


def read_entry(name: bytes, parent: int, offset: int, count: int) -> list[bytes]:
    kind = posix.stat(name, dir_fd=parent, follow_symlinks=False).st_mode & S_IFMT
    if kind == S_IFLNK:
        return [b"link", link_target(name, parent)]
    if kind != S_IFREG:
        return [b"folder" if kind == S_IFDIR else b"other"]
    fd = open_file(name, parent)
    try:
        size = posix.fstat(fd).st_size
        parts = []
        while count > 0:
            data = posix.pread(fd, min(count, CHUNK), offset)
            if not data:
                break
            parts.append(data)
            offset += len(data)
            count -= len(data)
        return [b"file", number(size), b"".join(parts)]
    finally:
        posix.close(fd)
