"""Share bundles: a run directory as one file, `run.tar.zst`.

A bundle may be hostile. It is read into a private temporary folder: only files below one folder, with limits on their number
and size, no links except those of a kept workspace that stay inside it, which are created last, so that nothing is written through
a link. A bundle proves nothing by itself; its run is verified like any other.
"""

from __future__ import annotations

import os
import shutil
import stat
import tarfile
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from typing import IO, Protocol, cast

from agentbench.core.errors import InputError, RecordError
from agentbench.core.text import printable
from agentbench.record.attempt_folder import WORKSPACE
from agentbench.record.naming import PAGES, RUN_JSON

MAGIC = b"\x28\xb5\x2f\xfd"
"""First bytes of a Zstandard frame."""
LEFT_OUT = frozenset({PAGES})
"""Pages can be made again from the run."""
LEVEL = 9
MAX_FILES = 500_000
MAX_BYTES = 64 * 1024**3
MAX_RATIO = 1000
"""A bundle may not expand to more than this times its size, plus `FREE_BYTES`."""
FREE_BYTES = 64 * 1024**2
HEADER_BYTES = 64 * 1024
"""Bytes of the headers of one member: two names of `MAX_NAME` bytes, and one block of the reader, are far less."""
MAX_WINDOW = 128 * 1024**2
MAX_NAME = 4096
MAX_DEPTH = 100
MIN_FREE_BYTES = 256 * 1024**2
"""Disk space that reading a bundle leaves free."""
_CHUNK = 1 << 20


class _Readable(Protocol):
    def read(self, size: int = -1, /) -> bytes: ...


def is_bundle(path: Path) -> bool:
    """Return whether a file starts like a bundle."""
    try:
        with path.open("rb") as file:
            return file.read(len(MAGIC)) == MAGIC
    except OSError:
        return False


# --- writing ----------------------------------------------------------------------------------------------------------


def write_bundle(run: Path, out: Path) -> int:
    """Write a run directory as a bundle, atomically, and return the number of files. Equal runs give equal bytes.

    Raises:
        InputError: the run contains something that is neither a file nor a folder, or `out` cannot be written.
    """
    import zstandard  # noqa: PLC0415 - only where a bundle is written or read

    temporary = out.with_name(f".{out.name}.{os.getpid()}")
    count = 0
    try:
        with temporary.open("xb") as file:
            with (
                zstandard.ZstdCompressor(level=LEVEL).stream_writer(file, closefd=False) as compressed,
                tarfile.open(mode="w|", fileobj=cast("IO[bytes]", compressed), format=tarfile.PAX_FORMAT) as tar,
            ):
                for name in _names(run):
                    _add(tar, run, name)
                    count += 1
            file.flush()
            os.fsync(file.fileno())
        temporary.rename(out)
    except OSError as error:
        raise InputError(f"cannot write {out}: {error.strerror or error}") from None
    finally:
        temporary.unlink(missing_ok=True)
    return count


def _names(run: Path) -> Iterator[str]:
    for base, folders, files in os.walk(run):
        inside = Path(base).relative_to(run)
        links = [name for name in folders if (Path(base) / name).is_symlink()]
        folders[:] = sorted(name for name in folders if (inside / name).as_posix() not in LEFT_OUT)
        yield from ((inside / name).as_posix() for name in sorted((*files, *links)))


def _add(tar: tarfile.TarFile, run: Path, name: str) -> None:
    path = run / name
    info = tarfile.TarInfo(f"{run.resolve().name}/{name}")
    mode = path.lstat().st_mode
    if stat.S_ISLNK(mode) and _in_workspace(PurePosixPath(name)):
        info.type, info.linkname = tarfile.SYMTYPE, os.readlink(path)
        tar.addfile(info)
        return
    if not stat.S_ISREG(mode):
        raise InputError(f"{path} is neither a file nor a folder", remedy="run `ab verify` for details")
    info.mode = 0o755 if mode & stat.S_IXUSR else 0o644
    with path.open("rb") as file:
        info.size = os.fstat(file.fileno()).st_size
        tar.addfile(info, file)


# --- reading ----------------------------------------------------------------------------------------------------------


@contextmanager
def open_bundle(path: Path) -> Iterator[Path]:
    """Yield the run directory of a bundle, in a temporary folder that is removed afterwards.

    Raises:
        InputError: it is not a bundle, or contains something that a bundle may not contain.
    """
    folder = Path(tempfile.mkdtemp(prefix="agentbench-bundle-"))
    try:
        yield _unpack(path, folder)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _unpack(path: Path, folder: Path) -> Path:
    import zstandard  # noqa: PLC0415 - only where a bundle is written or read

    if not is_bundle(path):
        raise InputError(f"{path} is neither a run directory nor a bundle")
    try:
        with path.open("rb") as file:
            free = shutil.disk_usage(folder).free - MIN_FREE_BYTES
            limit = min(MAX_BYTES, FREE_BYTES + MAX_RATIO * os.fstat(file.fileno()).st_size, free)
            stream = zstandard.ZstdDecompressor(max_window_size=MAX_WINDOW).stream_reader(file, closefd=False)
            reader = _LimitedReader(stream, limit)
            with tarfile.open(mode="r|", fileobj=cast("IO[bytes]", reader)) as tar:
                _Unpacker(folder, reader).unpack(tar)
            reader.require_end()
    except _Refused as error:
        raise InputError(f"{path} is not a safe bundle: {error}") from None
    except (tarfile.TarError, zstandard.ZstdError, EOFError, ValueError, OverflowError) as error:
        truncated = isinstance(error, tarfile.ReadError) and "empty" in str(error)
        raise InputError(f"{path} is a damaged bundle: {'it is cut off' if truncated else error}") from None
    except OSError as error:
        raise RecordError.of("unpack", path, error) from error
    runs = [entry for entry in folder.iterdir() if (entry / RUN_JSON).is_file()]
    if len(runs) != 1:
        raise InputError(f"{path} does not contain a run directory")
    return runs[0]


class _Refused(Exception):
    """A member that a bundle may not contain."""


class _LimitedReader:
    """Reads decompressed bytes, with limits on all of them and on those of one header, which tarfile keeps in memory."""

    def __init__(self, source: _Readable, limit: int) -> None:
        self._source = source
        self._limit = limit
        self._left = limit
        self._total = 0
        self.header_left: int | None = None

    def read(self, size: int) -> bytes:
        data = self._source.read(size)
        self._left -= len(data)
        self._total += len(data)
        if self._left < 0:
            raise _Refused(f"it expands to more than {self._limit} bytes")
        if self.header_left is not None:
            self.header_left -= len(data)
            if self.header_left < 0:
                raise _Refused("a header is too large")
        return data

    def require_end(self) -> None:
        """Read the padding after the last member, which ends at a whole record.

        Raises:
            EOFError: the end is missing.
        """
        while self.read(tarfile.RECORDSIZE):
            pass
        if self._total % tarfile.RECORDSIZE:
            raise EOFError("its end is missing")


class _Unpacker:
    def __init__(self, folder: Path, reader: _LimitedReader) -> None:
        self._folder = folder
        self._reader = reader
        self._root = ""
        self._links: list[tuple[PurePosixPath, str]] = []
        self._folders: set[PurePosixPath] = set()

    def unpack(self, tar: tarfile.TarFile) -> None:
        for number in range(MAX_FILES + 1):
            self._reader.header_left = HEADER_BYTES
            member = tar.next()
            self._reader.header_left = None
            tar.members = []  # type: ignore[attr-defined]  # tarfile keeps every member with its headers
            if tar.pax_headers:  # tarfile copies them into every member
                raise _Refused("it has headers for all members")
            if member is None:
                break
            if number == MAX_FILES:
                raise _Refused(f"it has more than {MAX_FILES} files")
            with _refusing_conflicts(member.name):
                self._member(tar, member)
        for name, target in self._links:
            with _refusing_conflicts(str(name)):
                os.symlink(target, self._folder / name)

    def _member(self, tar: tarfile.TarFile, member: tarfile.TarInfo) -> None:
        name = self._checked(member.name)
        target = self._folder / name
        if member.isdir():
            self._make_folder(name)
            return
        if len(name.parts) < 2:
            raise _Refused(f"{printable(member.name)} is outside the folder of the run")
        self._make_folder(name.parent)
        if member.issym():
            self._link(name, member.linkname)
            return
        # The zeros of a sparse file are not in the bundle, so no limit would count them.
        source = tar.extractfile(member) if member.isreg() and not member.issparse() else None
        if source is None:
            kind = "a hard link" if member.islnk() else "a sparse file" if member.issparse() else "not a file"
            raise _Refused(f"{printable(member.name)} is {kind}")
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        fd = os.open(target, flags, 0o755 if member.mode & stat.S_IXUSR else 0o644)
        with os.fdopen(fd, "wb") as file:
            shutil.copyfileobj(source, file, _CHUNK)

    def _make_folder(self, name: PurePosixPath) -> None:
        if name in self._folders:
            return
        self._folders.update((name, *name.parents))
        if len(self._folders) > MAX_FILES:
            raise _Refused(f"it has more than {MAX_FILES} folders")
        (self._folder / name).mkdir(parents=True, exist_ok=True)

    def _checked(self, name: str) -> PurePosixPath:
        path = PurePosixPath(name)
        if not name or len(name) > MAX_NAME or path.is_absolute() or {"..", "."} & set(name.split("/")) or "\0" in name:
            raise _Refused(f"the path {printable(name[:200])!r} leaves the bundle")
        if len(path.parts) > MAX_DEPTH:
            raise _Refused(f"{printable(name[:200])} is below more than {MAX_DEPTH} folders")
        self._root = self._root or path.parts[0]
        if path.parts[0] != self._root:
            raise _Refused(f"{printable(name[:200])} is outside the folder {printable(self._root)}")
        return path

    def _link(self, name: PurePosixPath, target: str) -> None:
        """Plan a symlink of a kept workspace."""
        if not _stays_in_workspace(PurePosixPath(*name.parts[1:]), target):
            raise _Refused(f"{printable(str(name))} is a link to {printable(target[:200])!r}")
        self._links.append((name, target))


@contextmanager
def _refusing_conflicts(name: str) -> Iterator[None]:
    try:
        yield
    except (FileExistsError, NotADirectoryError, IsADirectoryError):
        raise _Refused(f"{printable(name[:200])} conflicts with another member") from None


def _in_workspace(name: PurePosixPath) -> bool:
    """Return whether a name is `tasks/<attempt>/repo/…`."""
    return len(name.parts) > 3 and name.parts[0] == "tasks" and name.parts[2] == WORKSPACE


def _stays_in_workspace(name: PurePosixPath, target: str) -> bool:
    """Return whether a link of a workspace leads into the same workspace, whatever the other links of the bundle are.

    `..` is allowed only at the start of the target. The link's own folder is never a link, so it leads where its text says;
    after a component that may itself be a link, `..` could lead anywhere.
    """
    parts = PurePosixPath(target).parts
    up = next((index for index, part in enumerate(parts) if part != ".."), len(parts))
    absolute = not target or target.startswith("/")
    return _in_workspace(name) and not absolute and ".." not in parts[up:] and up <= len(name.parts) - 4
