"""Packs a folder into an archive and unpacks it on another machine: regular files, folders and links, with stable bytes.

An archive is addressed by its SHA-256, so a node that has the content does not fetch it again.
"""

from __future__ import annotations

import os
import tarfile
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import BinaryIO

from agentbench.core.errors import WorkspaceError


def pack_folder(folder: Path, target: BinaryIO) -> None:
    """Write the content of a folder as an archive. Times and owners are left out, so equal folders give equal bytes.

    Raises:
        WorkspaceError: it contains something else than files, folders and links, or cannot be read.
    """
    try:
        with tarfile.open(fileobj=target, mode="w", format=tarfile.PAX_FORMAT) as tar:
            for path in _entries(folder):
                info = tar.gettarinfo(path, arcname=os.fspath(path.relative_to(folder)))
                if not (info.isreg() or info.isdir() or info.issym() or info.islnk()):
                    raise WorkspaceError(f"{path} is neither a file, a folder nor a link")
                if info.islnk():  # content counts, not which names share it
                    info.type, info.linkname, info.size = tarfile.REGTYPE, "", path.stat().st_size
                info.uid = info.gid = 0
                info.uname = info.gname = ""
                info.mtime = 0
                if info.isreg():
                    with path.open("rb") as content:
                        tar.addfile(info, content)
                else:
                    tar.addfile(info)
    except (OSError, tarfile.TarError) as error:
        raise WorkspaceError(f"cannot pack {folder}: {error}") from error


def unpack_folder(source: BinaryIO, folder: Path) -> None:
    """Unpack an archive into an empty folder.

    Raises:
        WorkspaceError: a name points outside of the folder, or it cannot be written.
    """
    links: list[tuple[Path, str]] = []
    folders: list[tuple[Path, int]] = []
    try:
        with tarfile.open(fileobj=source, mode="r|") as tar:
            for member in tar:
                target = folder / _inner(member.name)
                if member.issym():
                    links.append((target, member.linkname))
                elif member.isdir():
                    target.mkdir(parents=True, exist_ok=True)
                    folders.append((target, member.mode & 0o777))
                else:
                    _write(tar, member, target)
        # Links come last, so that none is followed; modes of folders too, because a folder may be read-only.
        for target, destination in links:
            target.parent.mkdir(parents=True, exist_ok=True)
            target.symlink_to(destination)
        for target, mode in reversed(folders):
            target.chmod(mode)
    except (OSError, tarfile.TarError) as error:
        raise WorkspaceError(f"cannot unpack into {folder}: {error}") from error


def _write(tar: tarfile.TarFile, member: tarfile.TarInfo, target: Path) -> None:
    content = tar.extractfile(member) if member.isreg() else None
    if content is None:
        raise WorkspaceError(f"{member.name} is neither a file, a folder nor a link")
    target.parent.mkdir(parents=True, exist_ok=True)
    with target.open("xb") as file:
        while chunk := content.read(1 << 20):
            file.write(chunk)
    target.chmod(member.mode & 0o777)


def _entries(folder: Path) -> Iterator[Path]:
    for base, folders, files in os.walk(folder):
        folders.sort()
        links = [name for name in folders if (Path(base) / name).is_symlink()]
        yield from (Path(base) / name for name in sorted([*folders, *files]))
        folders[:] = [name for name in folders if name not in links]


def _inner(name: str) -> PurePosixPath:
    path = PurePosixPath(name)
    if path.is_absolute() or ".." in path.parts or not path.parts or "\0" in name:
        raise WorkspaceError(f"{name!r} points outside of the archive")
    return path
