"""R from an archive with a known digest: beside the task, behind a URL, or a release of a package index."""

from __future__ import annotations

import contextlib
import hashlib
import http.client
import os
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import BinaryIO
from urllib.parse import unquote, urlsplit

from agentbench.core.command import MIB
from agentbench.core.errors import SourceError
from agentbench.workspace.source.archive import unpack
from agentbench.workspace.source.download import WEB_ERRORS, open_web
from agentbench.workspace.source.location import hidden
from agentbench.workspace.source.materialize import SourceLimits
from agentbench.workspace.source.package_index import open_release
from agentbench.workspace.source.store import Store, make_folder

_CHUNK = 1024 * 1024
_DOWNLOAD_BYTES = 2 * 1024 * MIB


class ArchiveSource:
    """One archive. The digest is its identity: where it came from does not matter."""

    def __init__(self, store: Store, name: str, sha256: str, *, folder: Path, limits: SourceLimits) -> None:
        """`folder` is what a path is relative to."""
        self._store = store
        self._name = name
        self._sha256 = sha256.removeprefix("sha256:")
        self._folder = folder
        self._limits = limits

    def key(self) -> str:
        return f"archive {self._sha256}"

    def plant(self, folder: Path) -> Mapping[str, str]:
        with self._file() as archive:
            unpack(archive, folder, self._limits)
        return {"kind": "archive", "archive": hidden(self._name), "sha256": self._sha256}

    @contextlib.contextmanager
    def _file(self) -> Iterator[Path]:
        """A copy of ours whose digest was taken from the very bytes that are unpacked."""
        kept = self._store.folder("archives", self._sha256)
        with self._store.lock(f"archive-{self._sha256[:40]}"):
            if not kept.is_file() or _digest(kept) != self._sha256:
                with self._store.scratch() as scratch:
                    fresh = scratch / "archive"
                    self._fetch(fresh)
                    make_folder(kept.parent)
                    fresh.chmod(0o644)
                    fresh.replace(kept)
            yield kept

    def _fetch(self, target: Path) -> None:
        state = hashlib.sha256()
        size = 0
        with self._open() as source, target.open("wb") as file:
            while chunk := _next(source, self._name):
                size += len(chunk)
                if size > _DOWNLOAD_BYTES:
                    raise SourceError(f"the archive {hidden(self._name)} is larger than {_DOWNLOAD_BYTES} bytes")
                state.update(chunk)
                file.write(chunk)
        if state.hexdigest() != self._sha256:
            raise SourceError(
                f"the archive {hidden(self._name)} has sha256 {state.hexdigest()}, the task says {self._sha256}",
                remedy="correct `repo.sha256`, or find the archive that has it",
            )

    def _open(self) -> BinaryIO:
        """
        Raises:
            SourceError: the archive cannot be had.
        """
        scheme = self._name.partition(":")[0].lower() if ":" in self._name else ""
        if scheme == "pypi":
            return open_release(self._name, self._sha256)
        return _OPENERS.get(scheme, _open_path)(self._name, self._folder)


def _next(source: BinaryIO, name: str) -> bytes:
    try:
        return source.read(_CHUNK)
    except (OSError, http.client.HTTPException) as error:
        raise _unreachable(name, error) from error


def _open_path(name: str, folder: Path) -> BinaryIO:
    try:
        fd = os.open(folder / name, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
        file = os.fdopen(fd, "rb")
    except (OSError, ValueError) as error:
        raise _unreachable(name, error) from error
    if not os.path.isfile(fd):
        file.close()
        raise SourceError(f"the archive {hidden(name)} is not a file")
    return file


def _open_file_url(name: str, folder: Path) -> BinaryIO:
    parts = urlsplit(name)
    if parts.netloc not in {"", "localhost"}:
        raise SourceError(f"the archive {hidden(name)} is on another machine")
    return _open_path(unquote(parts.path), folder)


def _open_web(name: str, _folder: Path) -> BinaryIO:
    try:
        answer = open_web(name)
    except WEB_ERRORS as error:
        raise _unreachable(name, error) from error
    if answer is None:
        raise SourceError(f"the archive {hidden(name)} leads to something that is not http or https")
    return answer


_OPENERS: dict[str, Callable[[str, Path], BinaryIO]] = {
    "http": _open_web,
    "https": _open_web,
    "file": _open_file_url,
}


def _unreachable(name: str, error: Exception) -> SourceError:
    return SourceError(
        f"the archive {hidden(name)} cannot be read: {error}", remedy="check `repo.archive` and the network"
    )


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
