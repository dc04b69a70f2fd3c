"""Where R comes from: what every kind of source offers, and the simplest of them, a folder."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Protocol

from agentbench.contract.task_files import is_python_cache
from agentbench.core.errors import SourceError, WorkspaceError
from agentbench.tree.entry import Entry, Kind
from agentbench.tree.folder import FolderTree, TreeLimits, TreeTooLarge, tree_digest
from agentbench.workspace.diff.paths import display_path, inside_git
from agentbench.workspace.source.materialize import Planter, SourceLimits

_CHUNK = 1024 * 1024


class Source(Protocol):
    """One way to get R."""

    def key(self) -> str:
        """Identity of the source; the same key gives the same content."""
        ...

    def plant(self, folder: Path) -> Mapping[str, str]:
        """Write R into an empty folder; what is to be recorded about it.

        Raises:
            SourceError: R cannot be had as it is pinned.
            WorkspaceError: ours.
        """
        ...


class FolderSource:
    """A local folder. Any `.git` in it is left out, and what Python left beside the sources; nothing else is.

    Installing a package compiles the Python files in it, bundled tasks included, and that must not make another R.
    """

    def __init__(self, folder: Path, name: str, limits: SourceLimits) -> None:
        """`name` is how the task calls the folder."""
        self._folder = folder
        self._name = name
        self._limits = limits
        self._entries: list[Entry] | None = None

    def key(self) -> str:
        if self._entries is None:
            found = read_entries(self._folder, self._limits)
            self._entries = [entry for entry in found if not is_python_cache(os.fsdecode(entry.path))]
        return f"folder {self._name} {tree_digest(self._entries)}"

    def plant(self, folder: Path) -> Mapping[str, str]:
        planter = Planter(folder, self._limits)
        with self._open() as tree:
            for entry in self._entries or ():
                if entry.kind is Kind.SYMLINK:
                    planter.symlink(entry.path, _target(tree, entry))
                else:
                    planter.file(entry.path, _chunks(tree, entry.path), executable=entry.executable)
        planter.finish()
        return {"kind": "folder", "path": self._name}

    def _open(self) -> FolderTree:
        return open_folder(self._folder, self._limits)


def open_folder(folder: Path, limits: SourceLimits) -> FolderTree:
    """
    Raises:
        SourceError: there is no such folder.
    """
    try:
        return FolderTree.at(folder.resolve(), limits=TreeLimits(entries=limits.entries, bytes=limits.content_bytes))
    except (WorkspaceError, OSError) as error:
        raise SourceError(f"R cannot be read: {error}") from error


def read_entries(folder: Path, limits: SourceLimits) -> list[Entry]:
    """What R consists of: every file and symlink outside any `.git`.

    Raises:
        SourceError: it has what R may not have.
    """
    kept: list[Entry] = []
    with open_folder(folder, limits) as tree:
        try:
            for entry in tree.entries():
                if inside_git(entry.path):
                    continue
                why = limits.path_problem(entry.path)
                if why is None and entry.kind is Kind.SPECIAL:
                    why = tree.problems.get(entry.path, "is neither a file nor a symlink")
                if why is not None:
                    raise SourceError(f"R has an entry that cannot be used: {display_path(entry.path[-200:])}: {why}")
                kept.append(entry)
        except TreeTooLarge as error:
            raise SourceError(f"R is too large: {error}") from error
    return kept


def _target(tree: FolderTree, entry: Entry) -> bytes:
    try:
        return tree.read(entry.path, max_bytes=entry.size)
    except (OSError, TreeTooLarge) as error:
        raise SourceError(f"R changed while it was read: {display_path(entry.path)}") from error


def _chunks(tree: FolderTree, path: bytes) -> Iterator[bytes]:
    try:
        fd = tree.open(path)
    except OSError as error:
        raise SourceError(f"R changed while it was read: {display_path(path)}") from error
    try:
        while chunk := os.read(fd, _CHUNK):
            yield chunk
    finally:
        os.close(fd)
