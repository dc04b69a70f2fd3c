"""Writes a base repository into an empty folder of the cache: the source protocol, size limits and the file writer."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Protocol

from agentbench.core.command import MIB
from agentbench.core.dataclass import dataclass
from agentbench.core.errors import SourceError
from agentbench.workspace.diff.paths import display_path, parents, path_problem


class Source(Protocol):
    """One way to get a base repository."""

    def key(self) -> str:
        """Return the identity of the source. The same key gives the same content."""
        ...

    def materialize(self, folder: Path) -> Mapping[str, str]:
        """Write the base repository into an empty folder. Return the facts to record about its origin.

        Raises:
            SourceError: the pinned content is not available.
            WorkspaceError: the harness failed.
        """
        ...


@dataclass(frozen=True, slots=True)
class SourceLimits:
    """Limits for the size of a base repository."""

    entries: int = 250_000
    content_bytes: int = 8 * 1024 * MIB
    free_bytes: int = 256 * MIB
    """Up to this size an archive may have any compression ratio."""
    ratio: int = 200
    """Beyond it, an archive may contain at most this many bytes per compressed byte."""
    path_bytes: int = 2048
    depth: int = 200
    """Limit for one path, which must fit below the folders of the cache and the workspace."""

    def path_problem(self, path: bytes) -> str | None:
        """Return why a base repository may not contain this path, or None if it may."""
        if len(path) > self.path_bytes or path.count(b"/") >= self.depth:
            return f"the path is longer than {self.path_bytes} bytes or deeper than {self.depth} folders"
        return path_problem(path)


class FolderWriter:
    """Writes files in any order. Symlinks are created last, so that nothing is written through them."""

    def __init__(self, folder: Path, limits: SourceLimits) -> None:
        self._root = os.fsencode(folder)
        self._limits = limits
        self._bytes = 0
        self._paths: set[bytes] = set()
        self._folders: set[bytes] = set()
        self._links: dict[bytes, bytes] = {}

    def file(self, path: bytes, chunks: Iterable[bytes], *, executable: bool) -> None:
        """Write a file.

        Raises:
            SourceError: the path is not allowed or already exists, or the base repository exceeds its limits.
            OSError: the file could not be written.
        """
        self._claim(path)
        self._make_parents(path)
        fd = os.open(os.path.join(self._root, path), os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o644)
        with os.fdopen(fd, "wb") as file:
            for chunk in chunks:
                self._bytes += len(chunk)
                if self._bytes > self._limits.content_bytes:
                    raise SourceError(f"the base repository is larger than {self._limits.content_bytes} bytes")
                file.write(chunk)
            os.fchmod(file.fileno(), 0o755 if executable else 0o644)

    def symlink(self, path: bytes, target: bytes) -> None:
        """Remember a symlink for `finish`.

        Raises:
            SourceError: the path is not allowed or already exists.
        """
        self._claim(path)
        self._links[path] = target

    def finish(self) -> None:
        """Create the symlinks.

        Raises:
            SourceError: an entry is below a symlink.
        """
        for path in self._paths:
            for parent in parents(path):
                if parent in self._links:
                    raise SourceError(
                        f"the base repository has {display_path(path)} below the symlink {display_path(parent)}"
                    )
        for path, target in self._links.items():
            if path in self._folders:
                raise SourceError(f"the base repository has {display_path(path)} both as a folder and as a symlink")
            self._make_parents(path)
            os.symlink(target, os.path.join(self._root, path))

    def _claim(self, path: bytes) -> None:
        problem = self._limits.path_problem(path)
        if problem is not None:
            raise SourceError(f"the base repository has a forbidden path {display_path(path)}: {problem}")
        if path in self._paths or path in self._folders:
            raise SourceError(f"the base repository has {display_path(path)} twice")
        self._paths.add(path)
        if len(self._paths) > self._limits.entries:
            raise SourceError(f"the base repository has more than {self._limits.entries} files")

    def _make_parents(self, path: bytes) -> None:
        for parent in parents(path):
            if parent in self._paths:
                raise SourceError(f"the base repository has {display_path(parent)} both as a file and as a folder")
            if parent not in self._folders:
                os.mkdir(os.path.join(self._root, parent), 0o755)
                os.chmod(os.path.join(self._root, parent), 0o755)  # noqa: S103 - sandboxes read it as another user
                self._folders.add(parent)
