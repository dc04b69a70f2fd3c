"""Base repositories from local folders, and the entries that make up a base repository."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from pathlib import Path

from agentbench.contract.task_files import is_python_cache
from agentbench.core.errors import SourceError, WorkspaceError
from agentbench.tree.entry import Entry, Kind, tree_digest
from agentbench.tree.folder import FolderTree
from agentbench.tree.limits import TreeLimits, TreeTooLarge
from agentbench.workspace.diff.paths import display_path, inside_git
from agentbench.workspace.source.materialize import FolderWriter, SourceLimits

_CHUNK = 1024 * 1024


class FolderSource:
    """A local folder without its `.git` folders and Python caches.

    Installing a package compiles the Python files in it, bundled tasks included. That must not change the base
    repository.
    """

    def __init__(self, folder: Path, name: str, limits: SourceLimits) -> None:
        """`name` is the path of the folder as the task writes it."""
        self._folder = folder
        self._name = name
        self._limits = limits
        self._entries: list[Entry] | None = None

    def key(self) -> str:
        if self._entries is None:
            entries = read_entries(self._folder, self._limits)
            self._entries = [entry for entry in entries if not is_python_cache(os.fsdecode(entry.path))]
        return f"folder {self._name} {tree_digest(self._entries)}"

    def materialize(self, folder: Path) -> Mapping[str, str]:
        writer = FolderWriter(folder, self._limits)
        with _open_folder(self._folder, self._limits) as tree:
            for entry in self._entries or ():
                if entry.kind is Kind.SYMLINK:
                    writer.symlink(entry.path, _target(tree, entry))
                else:
                    writer.file(entry.path, _chunks(tree, entry.path), executable=entry.executable)
        writer.finish()
        return {"kind": "folder", "path": self._name}


def read_entries(folder: Path, limits: SourceLimits) -> list[Entry]:
    """List the entries of a base repository: every file and symlink outside `.git`.

    Raises:
        SourceError: the folder cannot be read or contains an entry that is not allowed.
    """
    entries: list[Entry] = []
    with _open_folder(folder, limits) as tree:
        try:
            for entry in tree.entries():
                if inside_git(entry.path):
                    continue
                problem = limits.path_problem(entry.path)
                if problem is None and entry.kind is Kind.SPECIAL:
                    problem = tree.problems.get(entry.path, "is neither a file nor a symlink")
                if problem is not None:
                    raise SourceError(
                        f"the base repository has an unusable entry {display_path(entry.path[-200:])}: {problem}"
                    )
                entries.append(entry)
        except TreeTooLarge as error:
            raise SourceError(f"the base repository is too large: {error}") from error
    return entries


def _open_folder(folder: Path, limits: SourceLimits) -> FolderTree:
    try:
        return FolderTree.at(folder.resolve(), limits=TreeLimits(entries=limits.entries, bytes=limits.content_bytes))
    except (WorkspaceError, OSError) as error:
        raise SourceError(f"cannot read the base repository: {error}") from error


def _target(tree: FolderTree, entry: Entry) -> bytes:
    try:
        return tree.read(entry.path, max_bytes=entry.size)
    except (OSError, TreeTooLarge) as error:
        raise _changed(entry.path) from error


def _chunks(tree: FolderTree, path: bytes) -> Iterator[bytes]:
    try:
        fd = tree.open(path)
    except OSError as error:
        raise _changed(path) from error
    try:
        while chunk := os.read(fd, _CHUNK):
            yield chunk
    finally:
        os.close(fd)


def _changed(path: bytes) -> SourceError:
    return SourceError(f"the base repository changed while it was read: {display_path(path)}")
