"""R from an archive: taken apart entry by entry, and refused whole if any entry is not a plain file or a link inside."""

from __future__ import annotations

import errno
import lzma
import os
import stat
import struct
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO, BinaryIO, cast

from agentbench.core.errors import SourceError
from agentbench.workspace.diff.paths import display_path, inside_git, target_problem
from agentbench.workspace.source.decompress import Inflated
from agentbench.workspace.source.materialize import Planter, SourceLimits

_CHUNK = 256 * 1024
_BROKEN = (
    tarfile.TarError, zipfile.BadZipFile, zlib.error, lzma.LZMAError, EOFError, struct.error, ValueError, OverflowError,
    NotImplementedError, RuntimeError, KeyError, IndexError, UnicodeError,
)  # fmt: skip
"""What the parsers of the standard library raise for an archive that is not one. RuntimeError: an encrypted zip."""


@dataclass(frozen=True, slots=True)
class Item:
    """One entry of an archive. `target` is that of a symlink; `hard` the path of the file it is another name of."""

    path: bytes
    executable: bool = False
    target: bytes | None = None
    hard: bytes | None = None
    content: Callable[[], IO[bytes] | None] | None = None


def unpack(archive: Path, folder: Path, limits: SourceLimits) -> None:
    """Write what an archive holds into an empty folder, without the one folder that releases put everything in.

    Raises:
        SourceError: the archive is broken, or holds what R may not.
    """
    with archive.open("rb") as file:
        size = os.fstat(file.fileno()).st_size
        budget = min(limits.content_bytes, max(limits.free_bytes, size * limits.ratio))
        planter = Planter(folder, limits)
        try:
            # Two passes: what is common to all paths is known only when all have been seen.
            top = _top(_items(file, budget, limits))
            file.seek(0)
            for item in _items(file, budget, limits):
                _plant(item, top, planter, folder)
            planter.finish()
        except _BROKEN as error:
            raise SourceError(f"the archive cannot be read: {str(error) or type(error).__name__}") from error
        except OSError as error:
            if error.errno != errno.EINVAL:  # EINVAL: a zip that says its entries lie before its start
                raise
            raise SourceError("the archive cannot be read: it has damaged offsets") from error


def _items(file: BinaryIO, budget: int, limits: SourceLimits) -> Iterator[Item]:
    magic = file.read(4)
    file.seek(0)
    items = _zip(file, budget) if magic in {b"PK\x03\x04", b"PK\x05\x06"} else _tar(file, budget)
    for count, item in enumerate(items):
        if count >= limits.entries:
            raise SourceError(f"the archive has more than {limits.entries} entries")
        yield item


def _plain(name: bytes) -> bytes:
    """A name without `./` and doubled slashes.

    Raises:
        SourceError: it leads out.
    """
    parts = [part for part in name.split(b"/") if part not in {b"", b"."}]
    if name.startswith(b"/") or b".." in parts or b"\0" in name:
        raise SourceError(f"the archive has an entry that leads out of it: {display_path(name)}")
    return b"/".join(parts)


def _top(items: Iterator[Item]) -> bytes:
    """The folder that everything is in, with its slash; empty when there is none."""
    tops = set()
    flat = False
    for item in items:
        first, slash, _ = item.path.partition(b"/")
        tops.add(first)
        flat = flat or not slash
        if len(tops) > 1 or flat:
            return b""
    return tops.pop() + b"/" if tops else b""


def _plant(item: Item, top: bytes, planter: Planter, folder: Path) -> None:
    path = item.path.removeprefix(top)
    if inside_git(path):
        return
    if item.target is not None:
        problem = target_problem(path, item.target)
        if problem is not None:
            raise SourceError(f"the archive has a symlink {display_path(item.path)} that may not be: {problem}")
        planter.symlink(path, item.target)
    elif item.hard is not None:
        planter.file(path, _copied(folder, item.hard.removeprefix(top)), executable=item.executable)
    elif item.content is not None:
        planter.file(path, _read(item.content()), executable=item.executable)


def _read(file: IO[bytes] | None) -> Iterator[bytes]:
    if file is None:
        return
    with file:
        while chunk := file.read(_CHUNK):
            yield chunk


def _copied(folder: Path, path: bytes) -> Iterator[bytes]:
    """Content of a file that was written before: no symlinks exist yet, so this stays inside."""
    source = os.path.join(os.fsencode(folder), path)
    if not os.path.isfile(source):
        raise SourceError(f"the archive has a hard link to {display_path(path)}, which is no file before it")
    with open(source, "rb") as file:
        while chunk := file.read(_CHUNK):
            yield chunk


def _tar(file: BinaryIO, budget: int) -> Iterator[Item]:
    stream = cast("IO[bytes]", Inflated(file, budget))
    with tarfile.open(fileobj=stream, mode="r:", encoding="utf-8", errors="surrogateescape") as tar:
        while (member := tar.next()) is not None:
            tar.members = []  # type: ignore[attr-defined]  # it would keep every header it has seen
            name = member.name.encode("utf-8", "surrogateescape")
            link = member.linkname.encode("utf-8", "surrogateescape")
            if member.isdir():
                _plain(name)
                continue
            path = _plain(name)
            executable = bool(member.mode & stat.S_IXUSR)
            if member.issparse() or not (member.isreg() or member.issym() or member.islnk()):
                raise SourceError(
                    f"the archive has an entry that is neither file, folder nor link: {display_path(name)}"
                )
            if member.issym():
                yield Item(path, target=link)
            elif member.islnk():
                yield Item(path, executable, hard=_plain(link))
            else:
                yield Item(path, executable, content=_opener(tar, member))


def _opener(tar: tarfile.TarFile, member: tarfile.TarInfo) -> Callable[[], IO[bytes] | None]:
    return lambda: tar.extractfile(member)


def _zip(file: BinaryIO, budget: int) -> Iterator[Item]:
    with zipfile.ZipFile(file) as archive:
        infos = archive.infolist()
        if sum(info.file_size for info in infos) > budget:
            raise SourceError(f"the archive holds more than {budget} bytes for its size: refused as a bomb")
        for info in infos:
            name = info.orig_filename.encode("utf-8" if info.flag_bits & 0x800 else "cp437")
            mode = info.external_attr >> 16
            if info.is_dir():
                _plain(name)
                continue
            if info.compress_type not in {zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED}:
                raise SourceError(f"the archive packs {display_path(name)} in a way that is not supported")
            if stat.S_IFMT(mode) not in {0, stat.S_IFREG, stat.S_IFLNK}:
                raise SourceError(
                    f"the archive has an entry that is neither file, folder nor link: {display_path(name)}"
                )
            path = _plain(name)
            if stat.S_ISLNK(mode):
                yield Item(path, target=_short(archive, info))
            else:
                yield Item(path, bool(mode & stat.S_IXUSR), content=_zip_opener(archive, info))


def _short(archive: zipfile.ZipFile, info: zipfile.ZipInfo) -> bytes:
    if info.file_size > 4096:
        raise SourceError("the archive has a symlink with a target that is too long")
    with archive.open(info) as file:
        return file.read(4097)


def _zip_opener(archive: zipfile.ZipFile, info: zipfile.ZipInfo) -> Callable[[], IO[bytes] | None]:
    return lambda: archive.open(info)
