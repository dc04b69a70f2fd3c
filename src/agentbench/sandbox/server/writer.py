"""Writes a batch of files into the workspace, all or nothing, for the command server.

Symlinks are never followed: each part of a path is opened relative to the one before it. New files are first written to
a staging folder, so that a full disk shows before anything changed, and then moved into place; each step records how to
undo it. A patch may nest thousands of folders, so each one is entered once and not once for every path below it.
Programs in the workspace can provoke every failure here, so a failure is an answer to the host, never a crash.
"""

from __future__ import annotations

import posix

FOLDER = posix.O_RDONLY | posix.O_DIRECTORY | posix.O_NOFOLLOW | posix.O_CLOEXEC
S_IFMT, S_IFDIR, S_IFLNK = 0o170000, 0o040000, 0o120000
EACCES, ENOENT, ENOTDIR, ELOOP, EEXIST, ENOTEMPTY = 13, 2, 20, 40, 17, 39


class Refused(Exception):
    """The request cannot be fulfilled; the message gives the reason."""


class Batch:
    """Files that are written together. `finish` returns [b"ok"], or [b"refused", reason] and nothing has changed."""

    def __init__(self, workdir: bytes) -> None:
        self.workdir = workdir
        self.writer: Writer | None = None
        self.why = ""

    def add(self, items: list[list[bytes]]) -> None:
        """Stage items [path, b"file"|b"more"|b"link"|b"gone", b"1" if executable, content]; `more` continues a file."""
        if self.why:
            return
        try:
            for path, _, _, _ in items:
                check_path(path)
            if self.writer is None:
                self.writer = Writer(self.workdir)
            for path, kind, executable, content in items:
                self.writer.stage(path, kind, executable, content)
        except Refused as refused:
            self.why = str(refused)
        except OSError as error:
            self.why = "cannot write files: " + (error.strerror or str(error))

    def finish(self) -> list[bytes]:
        if self.writer is not None:
            try:
                if not self.why:
                    self.writer.apply()
            except Refused as refused:
                self.why = str(refused)
            except OSError as error:
                self.why = "cannot write files: " + (error.strerror or str(error))
            if self.why:
                self.writer.roll_back()
            try:  # noqa: SIM105 - avoids importing contextlib
                self.writer.close()
            except OSError:
                pass  # a program inside uses the staging folder: it stays and shows up in the tree
        return [b"refused", self.why.encode("utf-8", "surrogateescape")] if self.why else [b"ok"]


def check_path(path: bytes) -> None:
    parts = path.split(b"/")
    if b"\0" in path or any(part in (b"", b".", b"..") for part in parts):
        raise Refused("not a plain relative path: " + show(path))
    if any(part.lower() == b".git" for part in parts):
        raise Refused("path inside .git: " + show(path))


def show(path: bytes) -> str:
    return path.decode("utf-8", "backslashreplace")


def write_all(fd: int, content: bytes) -> None:
    view = memoryview(content)
    while view:
        view = view[posix.write(fd, view) :]


class OpenFolder:
    """The folder that was opened last. The next one is reached from there, not from the root."""

    def __init__(self, root: int) -> None:
        self.root = root
        self.fd = posix.dup(root)
        self.names: list[bytes] = []
        self.above: list[tuple[int, int]] = []
        """Device and inode of each folder above."""

    def go_down(self, name: bytes, fd: int) -> None:
        """Make `fd` the open folder. It has this name in the one that was open."""
        self.above.append(identity(self.fd))
        self.names.append(name)
        posix.close(self.fd)
        self.fd = fd

    def go_up(self) -> bool:
        """Open the folder above. Return False if a program moved the folder meanwhile: then the root is open."""
        try:
            above = posix.open(b"..", FOLDER, dir_fd=self.fd)
        except OSError:
            above = -1
        same = above >= 0 and identity(above) == self.above[-1]
        if not same:
            if above >= 0:
                posix.close(above)
            above = posix.dup(self.root)
        keep = len(self.names) - 1 if same else 0
        del self.names[keep:], self.above[keep:]
        posix.close(self.fd)
        self.fd = above
        return same

    def go_up_towards(self, names: list[bytes]) -> None:
        """Go up to the last folder that is on the way to another one."""
        depth = len(self.names)
        if self.names != names[:depth]:
            depth = next(depth for depth, name in enumerate(self.names) if names[depth : depth + 1] != [name])
        while len(self.names) > depth:
            self.go_up()

    def close(self) -> None:
        posix.close(self.fd)


def identity(fd: int) -> tuple[int, int]:
    status = posix.fstat(fd)
    return status.st_dev, status.st_ino


class Writer:
    def __init__(self, workdir: bytes) -> None:
        self.root = posix.open(workdir, FOLDER)
        self.make_usable(self.root)
        self.name = b".ab-" + posix.urandom(8).hex().encode()
        posix.mkdir(self.name, 0o700, dir_fd=self.root)
        self.stage_fd = posix.open(self.name, FOLDER, dir_fd=self.root)
        self.open = OpenFolder(self.root)
        self.count = 0
        self.staged: list[tuple[bytes, bytes]] = []
        self.removed: list[bytes] = []
        self.undo: list[tuple[str, bytes, bytes]] = []

    def stage(self, path: bytes, kind: bytes, executable: bytes, content: bytes) -> None:
        if kind == b"gone":
            self.removed.append(path)
        elif kind == b"more":
            self.append(self.staged[-1][1], content)
        else:
            self.staged.append((path, self.put(kind, executable, content)))

    def apply(self) -> None:
        for path in self.removed:
            self.remove(path)
        for path, name in self.staged:
            self.place(path, name)

    def next_name(self) -> bytes:
        self.count += 1
        return b"%d" % self.count

    def put(self, kind: bytes, executable: bytes, content: bytes) -> bytes:
        name = self.next_name()
        if kind == b"link":
            posix.symlink(content, name, dir_fd=self.stage_fd)
            return name
        flags = posix.O_WRONLY | posix.O_CREAT | posix.O_EXCL | posix.O_NOFOLLOW | posix.O_CLOEXEC
        fd = posix.open(name, flags, 0o600, dir_fd=self.stage_fd)
        try:
            posix.fchmod(fd, 0o755 if executable == b"1" else 0o644)
            write_all(fd, content)
        finally:
            posix.close(fd)
        return name

    def append(self, name: bytes, content: bytes) -> None:
        fd = posix.open(
            name, posix.O_WRONLY | posix.O_APPEND | posix.O_NOFOLLOW | posix.O_CLOEXEC, dir_fd=self.stage_fd
        )
        try:
            write_all(fd, content)
        finally:
            posix.close(fd)

    def remove(self, path: bytes) -> None:
        try:
            parent = self.folder(path, make=False)
        except FileNotFoundError:
            return
        name = path.rpartition(b"/")[2]
        kind = self.kind(name, parent)
        if kind == S_IFDIR:
            raise Refused("cannot remove a folder: " + show(path))
        if kind:
            self.set_aside(path, name, parent)
        self.prune(path)

    def prune(self, path: bytes) -> None:
        """Remove folders that became empty, as git does."""
        while b"/" in path:
            path = path.rpartition(b"/")[0]
            parent = self.folder(path, make=False)
            try:
                posix.rmdir(path.rpartition(b"/")[2], dir_fd=parent)
            except OSError:
                return
            self.undo.append(("mkdir", path, b""))

    def place(self, path: bytes, staged: bytes) -> None:
        parent = self.folder(path, make=True)
        name = path.rpartition(b"/")[2]
        kind = self.kind(name, parent)
        if kind == S_IFDIR:
            try:
                posix.rmdir(name, dir_fd=parent)
            except OSError as error:
                raise Refused("cannot replace a folder that is not empty: " + show(path)) from error
            self.undo.append(("mkdir", path, b""))
        elif kind:
            self.set_aside(path, name, parent)
        posix.rename(staged, name, src_dir_fd=self.stage_fd, dst_dir_fd=parent)
        self.undo.append(("unlink", path, b""))

    def set_aside(self, path: bytes, name: bytes, parent: int) -> None:
        backup = self.next_name()
        posix.rename(name, backup, src_dir_fd=parent, dst_dir_fd=self.stage_fd)
        self.undo.append(("restore", path, backup))

    def folder(self, path: bytes, *, make: bool) -> int:
        """Return a descriptor of the folder that holds `path`, valid until the next call."""
        names = path.split(b"/")[:-1]
        self.open.go_up_towards(names)
        made = deepest = 0
        try:
            for name in names[len(self.open.names) :]:
                try:
                    below = self.enter(name)
                except FileNotFoundError:
                    if not make:
                        raise
                    posix.mkdir(name, 0o755, dir_fd=self.open.fd)
                    made, deepest = made + 1, len(self.open.names) + 1
                    below = self.enter(name)
                self.open.go_down(name, below)
        finally:
            if made:
                # One step for all of them: with a step for each, the paths of deep folders would fill the memory.
                self.undo.append(("rmdir", b"/".join(names[:deepest]), b"%d" % made))
        return self.open.fd

    def enter(self, name: bytes) -> int:
        """Open a folder of the open one, with all rights for the owner."""
        parent = self.open.fd
        try:
            below = posix.open(name, FOLDER, dir_fd=parent)
        except OSError as error:
            if error.errno in (ENOTDIR, ELOOP):
                path = b"/".join([*self.open.names, name])
                raise Refused("path leads through a symlink or a file: " + show(path)) from error
            if error.errno != EACCES or self.kind(name, parent) != S_IFDIR:
                raise
            posix.chmod(name, 0o700, dir_fd=parent)
            below = posix.open(name, FOLDER, dir_fd=parent)
        self.make_usable(below)
        return below

    @staticmethod
    def make_usable(folder: int) -> None:
        """Give the owner, whom the server runs as, all rights on a folder."""
        mode = posix.fstat(folder).st_mode & 0o7777
        if mode & 0o700 != 0o700:
            posix.fchmod(folder, mode | 0o700)

    @staticmethod
    def kind(name: bytes, parent: int) -> int:
        try:
            return posix.stat(name, dir_fd=parent, follow_symlinks=False).st_mode & S_IFMT
        except OSError as error:
            if error.errno == ENOENT:
                return 0
            raise

    def roll_back(self) -> None:
        for action, path, detail in reversed(self.undo):
            try:
                parent = self.folder(path, make=False)
                name = path.rpartition(b"/")[2]
                if action == "mkdir":
                    posix.mkdir(name, 0o755, dir_fd=parent)
                elif action == "rmdir":
                    self.remove_folders(name, int(detail))
                elif action == "unlink":
                    posix.unlink(name, dir_fd=parent)
                else:
                    posix.rename(detail, name, src_dir_fd=self.stage_fd, dst_dir_fd=parent)
            except (OSError, Refused):
                pass

    def remove_folders(self, name: bytes, count: int) -> None:
        """Remove an empty folder of the open one and the folders above it, `count` in all."""
        posix.rmdir(name, dir_fd=self.open.fd)
        for _ in range(count - 1):
            name = self.open.names[-1]
            if not self.open.go_up():
                return
            posix.rmdir(name, dir_fd=self.open.fd)

    def close(self) -> None:
        self.open.close()
        for name in posix.listdir(self.stage_fd):
            posix.unlink(name, dir_fd=self.stage_fd)
        posix.close(self.stage_fd)
        posix.rmdir(self.name, dir_fd=self.root)
        posix.close(self.root)
