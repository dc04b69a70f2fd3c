"""Base repositories from archives with a pinned digest: a file, a URL, or a release on a package index.

An archive is rejected as a whole if it contains anything but files, folders and links that stay inside.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import http.client
import lzma
import os
import stat
import struct
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import IO, BinaryIO, cast
from urllib.parse import unquote, urlsplit

from agentbench.core.command import MIB
from agentbench.core.dataclass import dataclass
from agentbench.core.errors import SourceError
from agentbench.core.package_settings import without_credentials
from agentbench.workspace.diff.paths import display_path, inside_git, target_problem
from agentbench.workspace.source.decompress import DecompressedFile
from agentbench.workspace.source.download import DOWNLOAD_ERRORS, open_url
from agentbench.workspace.source.materialize import FolderWriter, SourceLimits
from agentbench.workspace.source.package_index import open_release
from agentbench.workspace.source.store import Store, make_folder

_CHUNK = 256 * 1024
_DOWNLOAD_BYTES = 2 * 1024 * MIB
_TARGET_BYTES = 4096
_PARSE_ERRORS = (
    tarfile.TarError, zipfile.BadZipFile, zlib.error, lzma.LZMAError, EOFError, struct.error, ValueError, OverflowError,
    NotImplementedError, RuntimeError, KeyError, IndexError, UnicodeError,
)  # fmt: skip
"""Errors of the standard library for broken archives. RuntimeError is an encrypted zip file."""


class ArchiveSource:
    """One archive, identified by its digest, wherever it comes from."""

    def __init__(self, store: Store, name: str, sha256: str, *, folder: Path, limits: SourceLimits) -> None:
        """A relative path in `name` is resolved against `folder`."""
        self._store = store
        self._name = name
        self._sha256 = sha256.removeprefix("sha256:")
        self._folder = folder
        self._limits = limits

    def key(self) -> str:
        return f"archive {self._sha256}"

    def materialize(self, folder: Path) -> Mapping[str, str]:
        with self._cached() as archive:
            unpack(archive, folder, self._limits)
        return {"kind": "archive", "archive": without_credentials(self._name), "sha256": self._sha256}

    @contextlib.contextmanager
    def _cached(self) -> Iterator[Path]:
        """Yield a copy in the cache, so that the verified bytes are the ones that are unpacked."""
        cached = self._store.folder("archives", self._sha256)
        with self._store.lock(f"archive-{self._sha256[:40]}"):
            if not cached.is_file() or _digest(cached) != self._sha256:
                with self._store.scratch() as scratch:
                    fresh = scratch / "archive"
                    self._fetch(fresh)
                    make_folder(cached.parent)
                    fresh.chmod(0o644)
                    fresh.replace(cached)
            yield cached

    def _fetch(self, target: Path) -> None:
        state = hashlib.sha256()
        size = 0
        with self._open() as source, target.open("wb") as file:
            while chunk := self._read(source):
                size += len(chunk)
                if size > _DOWNLOAD_BYTES:
                    raise SourceError(
                        f"the archive {without_credentials(self._name)} is larger than {_DOWNLOAD_BYTES} bytes"
                    )
                state.update(chunk)
                file.write(chunk)
        if state.hexdigest() != self._sha256:
            raise SourceError(
                f"the archive {without_credentials(self._name)} has sha256 {state.hexdigest()}, "
                f"expected {self._sha256}",
                remedy="correct `repo.sha256`, or use the archive with this digest",
            )

    def _open(self) -> BinaryIO:
        scheme = self._name.partition(":")[0].lower() if ":" in self._name else ""
        if scheme == "pypi":
            return open_release(self._name, self._sha256)
        if scheme in {"http", "https"}:
            try:
                return open_url(self._name)
            except DOWNLOAD_ERRORS as error:
                raise self._unreadable(error) from error
        if scheme == "file":
            parts = urlsplit(self._name)
            if parts.netloc not in {"", "localhost"}:
                raise SourceError(f"the archive {without_credentials(self._name)} is on another machine")
            return self._open_path(unquote(parts.path))
        return self._open_path(self._name)

    def _open_path(self, name: str) -> BinaryIO:
        try:
            fd = os.open(self._folder / name, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
            file = os.fdopen(fd, "rb")
        except (OSError, ValueError) as error:
            raise self._unreadable(error) from error
        if not os.path.isfile(fd):
            file.close()
            raise SourceError(f"the archive {without_credentials(self._name)} is not a file")
        return file

    def _read(self, source: BinaryIO) -> bytes:
        try:
            return source.read(_CHUNK)
        except (OSError, http.client.HTTPException) as error:
            raise self._unreadable(error) from error

    def _unreadable(self, error: Exception) -> SourceError:
        return SourceError(
            f"cannot read the archive {without_credentials(self._name)}: {error}",
            remedy="check `repo.archive` and the network",
        )


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


@dataclass(frozen=True, slots=True)
class _ArchiveEntry:
    """One file or link of an archive. `target` is set for a symlink, `hard_link` is the path of an earlier file."""

    path: bytes
    executable: bool = False
    target: bytes | None = None
    hard_link: bytes | None = None
    open: Callable[[], IO[bytes] | None] | None = None


def unpack(archive: Path, folder: Path, limits: SourceLimits) -> None:
    """Unpack an archive into an empty folder. A single top folder, as releases have it, is stripped.

    Raises:
        SourceError: the archive is broken or has content that is not allowed.
    """
    with archive.open("rb") as file:
        size = os.fstat(file.fileno()).st_size
        budget = min(limits.content_bytes, max(limits.free_bytes, size * limits.ratio))
        writer = FolderWriter(folder, limits)
        try:
            # Two passes: the common top folder is known only after all paths were read.
            top = _top_folder(_entries(file, budget, limits))
            file.seek(0)
            for entry in _entries(file, budget, limits):
                _write(entry, top, writer, folder)
            writer.finish()
        except _PARSE_ERRORS as error:
            raise SourceError(f"cannot read the archive: {str(error) or type(error).__name__}") from error
        except OSError as error:
            if error.errno != errno.EINVAL:  # EINVAL: a zip file whose entries start before the file
                raise
            raise SourceError("cannot read the archive: damaged offsets") from error


def _entries(file: BinaryIO, budget: int, limits: SourceLimits) -> Iterator[_ArchiveEntry]:
    magic = file.read(4)
    file.seek(0)
    entries = _zip_entries(file, budget) if magic in {b"PK\x03\x04", b"PK\x05\x06"} else _tar_entries(file, budget)
    for count, entry in enumerate(entries):
        if count >= limits.entries:
            raise SourceError(f"the archive has more than {limits.entries} entries")
        yield entry


def _normalize(name: bytes) -> bytes:
    """Remove `.` parts and repeated slashes from a name, and reject names that lead out of the archive."""
    parts = [part for part in name.split(b"/") if part not in {b"", b"."}]
    if name.startswith(b"/") or b".." in parts or b"\0" in name:
        raise SourceError(f"the archive has an entry outside its folder: {display_path(name)}")
    return b"/".join(parts)


def _top_folder(entries: Iterator[_ArchiveEntry]) -> bytes:
    """Return the folder that contains all entries, with a slash; empty if there is none."""
    tops = set()
    for entry in entries:
        first, slash, _ = entry.path.partition(b"/")
        tops.add(first)
        if len(tops) > 1 or not slash:
            return b""
    return tops.pop() + b"/" if tops else b""


def _write(entry: _ArchiveEntry, top: bytes, writer: FolderWriter, folder: Path) -> None:
    path = entry.path.removeprefix(top)
    if inside_git(path):
        return
    if entry.target is not None:
        problem = target_problem(path, entry.target)
        if problem is not None:
            raise SourceError(f"the archive has a forbidden symlink {display_path(entry.path)}: {problem}")
        writer.symlink(path, entry.target)
    elif entry.hard_link is not None:
        writer.file(path, _copy_chunks(folder, entry.hard_link.removeprefix(top)), executable=entry.executable)
    elif entry.open is not None:
        writer.file(path, _chunks(entry.open()), executable=entry.executable)


def _chunks(file: IO[bytes] | None) -> Iterator[bytes]:
    if file is None:
        return
    with file:
        while chunk := file.read(_CHUNK):
            yield chunk


def _copy_chunks(folder: Path, path: bytes) -> Iterator[bytes]:
    """Read a file that was unpacked earlier. Symlinks are created last, so the path cannot leave the folder."""
    source = os.path.join(os.fsencode(folder), path)
    if not os.path.isfile(source):
        raise SourceError(f"the archive has a hard link to {display_path(path)}, which is not an earlier file")
    with open(source, "rb") as file:
        while chunk := file.read(_CHUNK):
            yield chunk


def _tar_entries(file: BinaryIO, budget: int) -> Iterator[_ArchiveEntry]:
    stream = cast("IO[bytes]", DecompressedFile(file, budget))
    with tarfile.open(fileobj=stream, mode="r:", encoding="utf-8", errors="surrogateescape") as tar:
        while (member := tar.next()) is not None:
            tar.members = []  # type: ignore[attr-defined]  # otherwise it keeps every header in memory
            name = member.name.encode("utf-8", "surrogateescape")
            link = member.linkname.encode("utf-8", "surrogateescape")
            path = _normalize(name)
            if member.isdir():
                continue
            executable = bool(member.mode & stat.S_IXUSR)
            if member.issparse() or not (member.isreg() or member.issym() or member.islnk()):
                raise SourceError(f"the archive has an entry that is not a file, folder or link: {display_path(name)}")
            if member.issym():
                yield _ArchiveEntry(path, target=link)
            elif member.islnk():
                yield _ArchiveEntry(path, executable, hard_link=_normalize(link))
            else:
                yield _ArchiveEntry(path, executable, open=partial(tar.extractfile, member))


def _zip_entries(file: BinaryIO, budget: int) -> Iterator[_ArchiveEntry]:
    with zipfile.ZipFile(file) as archive:
        infos = archive.infolist()
        if sum(info.file_size for info in infos) > budget:
            raise SourceError(f"the archive unpacks to more than {budget} bytes, too much for its size")
        for info in infos:
            name = info.orig_filename.encode("utf-8" if info.flag_bits & 0x800 else "cp437")
            mode = info.external_attr >> 16
            if info.is_dir():
                _normalize(name)
                continue
            if info.compress_type not in {zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED}:
                raise SourceError(f"the archive uses an unsupported compression for {display_path(name)}")
            if stat.S_IFMT(mode) not in {0, stat.S_IFREG, stat.S_IFLNK}:
                raise SourceError(f"the archive has an entry that is not a file, folder or link: {display_path(name)}")
            path = _normalize(name)
            if stat.S_ISLNK(mode):
                yield _ArchiveEntry(path, target=_zip_target(archive, info))
            else:
                yield _ArchiveEntry(path, bool(mode & stat.S_IXUSR), open=partial(archive.open, info))


def _zip_target(archive: zipfile.ZipFile, info: zipfile.ZipInfo) -> bytes:
    if info.file_size > _TARGET_BYTES:
        raise SourceError(f"the archive has a symlink with a target longer than {_TARGET_BYTES} bytes")
    with archive.open(info) as file:
        return file.read(_TARGET_BYTES + 1)
