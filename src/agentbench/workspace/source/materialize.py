"""Writing R, file by file, into an empty folder of ours."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from agentbench.core.command import MIB
from agentbench.core.errors import SourceError
from agentbench.workspace.diff.paths import display_path, path_problem


@dataclass(frozen=True, slots=True)
class SourceLimits:
    """How large R may be."""

    entries: int = 250_000
    content_bytes: int = 8 * 1024 * MIB
    free_bytes: int = 256 * MIB
    """Up to this size an archive may be packed as tightly as it likes."""
    ratio: int = 200
    """Beyond it, at most this many bytes come out of one byte of archive."""
    path_bytes: int = 2048
    depth: int = 200
    """Of one path: it has to fit below wherever the cache and the workspace are."""

    def path_problem(self, path: bytes) -> str | None:
        """Why R may not have an entry at this path."""
        if len(path) > self.path_bytes or path.count(b"/") >= self.depth:
            return f"the path is longer than {self.path_bytes} bytes or deeper than {self.depth} folders"
        return path_problem(path)


class Planter:
    """Takes files in any order. Symlinks are made last, so that nothing can be written through one."""

    def __init__(self, folder: Path, limits: SourceLimits) -> None:
        self._root = os.fsencode(folder)
        self._limits = limits
        self._bytes = 0
        self._paths: set[bytes] = set()
        self._folders: set[bytes] = set()
        self._links: dict[bytes, bytes] = {}

    def file(self, path: bytes, chunks: Iterable[bytes], *, executable: bool) -> None:
        """
        Raises:
            SourceError: the path cannot be, is there already, or R grows beyond its limits.
            OSError: our disk.
        """
        self._claim(path)
        self._make_parents(path)
        fd = os.open(os.path.join(self._root, path), os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o644)
        with os.fdopen(fd, "wb") as file:
            for chunk in chunks:
                self._bytes += len(chunk)
                if self._bytes > self._limits.content_bytes:
                    raise SourceError(f"R is larger than {self._limits.content_bytes} bytes")
                file.write(chunk)
            os.fchmod(file.fileno(), 0o755 if executable else 0o644)

    def symlink(self, path: bytes, target: bytes) -> None:
        """
        Raises:
            SourceError: as for a file.
        """
        self._claim(path)
        self._links[path] = target

    def finish(self) -> None:
        """Make the symlinks.

        Raises:
            SourceError: something of R is below a symlink.
        """
        for path in self._paths:
            for above in _above(path):
                if above in self._links:
                    raise SourceError(f"R has {display_path(path)} below the symlink {display_path(above)}")
        for path, target in self._links.items():
            if path in self._folders:
                raise SourceError(f"R has {display_path(path)} both as a folder and as a symlink")
            self._make_parents(path)
            os.symlink(target, os.path.join(self._root, path))

    def _claim(self, path: bytes) -> None:
        problem = self._limits.path_problem(path)
        if problem is not None:
            raise SourceError(f"R has an entry that cannot be: {display_path(path)}: {problem}")
        if path in self._paths or path in self._folders:
            raise SourceError(f"R has {display_path(path)} twice")
        self._paths.add(path)
        if len(self._paths) > self._limits.entries:
            raise SourceError(f"R has more than {self._limits.entries} files")

    def _make_parents(self, path: bytes) -> None:
        for above in _above(path):
            if above in self._paths:
                raise SourceError(f"R has {display_path(above)} both as a file and as a folder")
            if above not in self._folders:
                os.mkdir(os.path.join(self._root, above), 0o755)
                os.chmod(os.path.join(self._root, above), 0o755)  # noqa: S103 - sandboxes read it under another user
                self._folders.add(above)


def _above(path: bytes) -> list[bytes]:
    parts = path.split(b"/")
    return [b"/".join(parts[:count]) for count in range(1, len(parts))]
