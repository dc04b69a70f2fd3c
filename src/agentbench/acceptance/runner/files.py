"""Answers questions about files without calling anything that belongs to the code under test.

A file is recognised by device and inode, so that a link or another path to it counts as the same file.
"""

from __future__ import annotations

import pathlib
import posix
import stat
import sys
from collections.abc import Iterable, Iterator
from time import time
from typing import Any

# Bound before any code under test runs. Everything called while it runs is implemented by the interpreter itself.
_stat, _list_folder, _cwd = posix.stat, posix.listdir, posix.getcwd
_PATH_TYPES, _path_str = (pathlib.PosixPath, pathlib.PurePosixPath), pathlib.PurePath.__str__
_CLASS_MRO, _CLASS_DICT = vars(type)["__mro__"], vars(type)["__dict__"]
_PATH_BASES = frozenset(pathlib.PosixPath.__mro__)
_PATH_NAMES = frozenset(
    {"__fspath__", "__str__", "__getattribute__", "__getattr__", "drive", "root", "parts", "parser"}
) | {name for base in _PATH_BASES for name in vars(base) if name.startswith("_") and not name.startswith("__")}
"""Attributes on which the text of a path depends."""
_IS_DIRECTORY = stat.S_IFDIR
_ENCODING, _ERRORS = sys.getfilesystemencoding(), sys.getfilesystemencodeerrors()
_MAX_ELEMENTS = 100
"""Elements of a list in the arguments of a call among which paths are looked for."""


class Files:
    """The files of the sandbox, and which of them were written since the runner started."""

    def __init__(self) -> None:
        self.started = time()

    def is_new(self, path: str) -> bool:
        """Return whether a file was written since the runner started. No program can set the time of a change.

        New links change it too: the harness makes them to files of the interpreter when it prepares other tasks. What a
        sandbox writes to such a file goes to a copy with one link.
        """
        started = self.started
        return any(
            status.st_ctime >= started and (status.st_nlink == 1 or status.st_mtime >= started)
            for status in self.statuses(path)
        )

    def inode(self, path: str) -> tuple[int, int] | None:
        """Return device and inode of a file, following links. None if it does not exist or is a folder."""
        return next(((status.st_dev, status.st_ino) for status in self.statuses(path)), None)

    @staticmethod
    def statuses(path: str, *, below_descriptors: bool = False) -> Iterator[posix.stat_result]:
        """Yield the status of a file, following links. Folders are left out.

        With `below_descriptors`, also the status of each file that has this path below a folder that is open.
        """
        for descriptor in (None, *(_open_descriptors() if below_descriptors else ())):
            try:
                status = _stat(path, dir_fd=descriptor)
            except (OSError, ValueError):
                continue
            if status.st_mode & 0o170000 != _IS_DIRECTORY:
                yield status

    @staticmethod
    def absolute(path: str) -> str:
        """Return a path without `.` and `..`, whatever links it goes through."""
        parts: list[str] = []
        for part in (path if path.startswith("/") else f"{_cwd()}/{path}").split("/"):
            if part == "..":
                del parts[-1:]
            elif part not in ("", "."):
                parts.append(part)
        return "/" + "/".join(parts)

    @staticmethod
    def path_text(value: Any) -> str | None:  # noqa: ANN401
        """Return the text of a path, or None for objects other than strings and the paths of `pathlib`."""
        if issubclass(type(value), str):
            return str.__str__(value)
        if issubclass(type(value), bytes):
            return bytes(memoryview(value)).decode(_ENCODING, _ERRORS)
        return _path_str(value) if issubclass(type(value), _PATH_TYPES) and _is_plain_path(type(value)) else None

    @staticmethod
    def texts(values: Iterable[Any]) -> list[str]:
        """Return the paths and texts among the arguments of a call, and in lists among them."""
        texts: list[str] = []
        for value in values:
            elements = value[:_MAX_ELEMENTS] if type(value) in (list, tuple) else (value,)
            texts += [text for text in map(Files.path_text, elements) if text is not None]
        return texts


def _is_plain_path(kind: type) -> bool:
    """Return whether a subclass of the paths of `pathlib` replaces nothing of them. Then their methods give its text."""
    if type(kind) is not type:
        return False
    added = [base for base in _CLASS_MRO.__get__(kind) if base not in _PATH_BASES]
    return not any(type(name) is not str or name in _PATH_NAMES for base in added for name in _CLASS_DICT.__get__(base))


def _open_descriptors() -> list[int]:
    try:
        return [int(name) for name in _list_folder("/proc/self/fd")]
    except OSError:
        return []
