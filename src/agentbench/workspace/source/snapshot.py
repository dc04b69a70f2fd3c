"""R, materialised once and found again: by what it was asked for, and by what it is."""

from __future__ import annotations

import contextlib
import hashlib
import json
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from agentbench.contract.load import LoadedTask
from agentbench.contract.schema import Repo
from agentbench.core.errors import SourceError, WorkspaceError
from agentbench.tree.folder import FolderTree, TreeTooLarge, tree_digest
from agentbench.workspace.source.agent_repository import single_commit
from agentbench.workspace.source.archive_source import ArchiveSource
from agentbench.workspace.source.folder import FolderSource, Source, read_entries
from agentbench.workspace.source.git import GitSource
from agentbench.workspace.source.host_git import HostGit
from agentbench.workspace.source.materialize import SourceLimits
from agentbench.workspace.source.mirror import Mirrors
from agentbench.workspace.source.store import Store, make_folder, open_up, ours, publish

_FORMAT = 1
"""Part of every name in the cache: entries of another format are never found, so never misread."""


@dataclass(frozen=True, slots=True)
class Snapshot:
    """R. `folder` has its files and a `.git` of one commit; it is shared and must not be written.

    `digest` is over the files. `source` says where they came from, with every resolved revision.
    """

    folder: Path
    digest: str
    source: Mapping[str, str] = field(default_factory=dict)


class Snapshots:
    """The snapshots below one cache folder. Safe for threads and for processes that share the folder."""

    def __init__(self, cache: Path, *, limits: SourceLimits | None = None) -> None:
        """
        Raises:
            WorkspaceError: the cache cannot be used.
        """
        self._store = Store(cache.absolute())
        self._limits = limits or SourceLimits()
        self._git = HostGit(self._store.folder("git"))
        self._sound: set[str] = set()
        self._guard = threading.Lock()

    def materialise(self, loaded: LoadedTask) -> Snapshot:
        """R of a task.

        Raises:
            SourceError: R cannot be had as it is pinned, or is not what the lock recorded.
            WorkspaceError: ours.
        """
        repo = loaded.task.repo
        if not isinstance(repo, Repo):
            return self._nothing()
        with ours("R cannot be materialised"):
            snapshot = self._find_or_make(self._source(repo, loaded), repo.subdir)
        _check_lock(loaded, snapshot)
        return snapshot

    def by_digest(self, digest: str) -> Snapshot | None:
        """R that is in the cache already, by what it is; None when it is not, or is no longer sound."""
        with ours("the cache cannot be read"):
            return Snapshot(self._folder(digest), digest, {"kind": "cache"}) if self._is_sound(digest) else None

    def _nothing(self) -> Snapshot:
        folder = self._store.folder("empty")
        with ours("the cache cannot be written"):
            make_folder(folder)
        return Snapshot(folder, tree_digest(()), {"kind": "none"})

    def _source(self, repo: Repo, loaded: LoadedTask) -> Source:
        if repo.path is not None:
            return FolderSource(loaded.folder / repo.path / (repo.subdir or ""), repo.path, self._limits)
        if repo.url is not None and repo.commit is not None:
            locked = loaded.lock.source.commit if loaded.lock is not None else None
            return GitSource(
                Mirrors(self._store, self._git),
                self._store,
                repo.url,
                locked or repo.commit,
                folder=loaded.folder,
                submodules=repo.submodules,
            )
        if repo.archive is not None and repo.sha256 is not None:
            return ArchiveSource(self._store, repo.archive, repo.sha256, folder=loaded.folder, limits=self._limits)
        raise SourceError(f"{loaded.file}: repo: expected url and commit, archive and sha256, or path")

    def _find_or_make(self, source: Source, subdir: str | None) -> Snapshot:
        name = hashlib.sha256(json.dumps([_FORMAT, source.key(), subdir]).encode()).hexdigest()[:40]
        with self._store.lock(f"source-{name}"):
            record = _read_json(self._record(name))
            digest, facts = record.get("digest"), record.get("source")
            if isinstance(digest, str) and isinstance(facts, dict) and self._is_sound(digest):
                return Snapshot(self._folder(digest), digest, {str(key): str(value) for key, value in facts.items()})
            return self._make(source, subdir, name)

    def _make(self, source: Source, subdir: str | None, name: str) -> Snapshot:
        with self._store.scratch() as scratch:
            whole = scratch / "tree"
            whole.mkdir()
            facts = dict(source.plant(whole))
            folder = whole if isinstance(source, FolderSource) else _below(whole, subdir)
            entries = read_entries(folder, self._limits)
            digest = tree_digest(entries)
            with self._store.lock(f"snapshot-{_hex(digest)}"):
                if not self._is_sound(digest):
                    self._build(folder, digest, len(entries), scratch)
            record = {"digest": digest, "source": facts}
            fresh = scratch / "record.json"
            fresh.write_text(json.dumps(record, sort_keys=True), encoding="utf-8")
            make_folder(self._record(name).parent)
            fresh.replace(self._record(name))
        return Snapshot(self._folder(digest), digest, facts)

    def _build(self, folder: Path, digest: str, entries: int, scratch: Path) -> None:
        """Finish a tree and move it into the cache whole."""
        single_commit(self._git, folder, entries)
        open_up(folder)
        made = scratch / "snapshot"
        made.mkdir()
        folder.rename(made / "tree")
        seal = {"format": _FORMAT, "digest": digest, "git": _git_digest(made / "tree")}
        (made / "seal.json").write_text(json.dumps(seal, sort_keys=True), encoding="utf-8")
        open_up(made)
        target = self._folder(digest).parent
        if target.exists():  # it was there and was not sound
            target.rename(scratch / "broken")
        publish(made, target)
        if not self._is_sound(digest):
            raise WorkspaceError(f"a snapshot was damaged while it was written: {target}")

    def _is_sound(self, digest: str) -> bool:
        """True if a cached snapshot is there and is still what its name says. Looked at once per process."""
        folder = self._folder(digest)
        with self._guard:
            if digest in self._sound and folder.is_dir():
                return True
        seal = _read_json(folder.parent / "seal.json")
        if seal.get("format") != _FORMAT or seal.get("digest") != digest or not folder.is_dir():
            return False
        try:
            sound = tree_digest(read_entries(folder, self._limits)) == digest and _git_digest(folder) == seal.get("git")
        except (SourceError, WorkspaceError):
            return False
        if sound:
            with self._guard:
                self._sound.add(digest)
        return sound

    def _folder(self, digest: str) -> Path:
        return self._store.folder("snapshots", f"{_hex(digest)}-{_FORMAT}", "tree")

    def _record(self, name: str) -> Path:
        return self._store.folder("sources", f"{name}.json")


def _check_lock(loaded: LoadedTask, snapshot: Snapshot) -> None:
    """What the lock recorded about R has to be what was found (C-03)."""
    recorded = loaded.lock.source.digest if loaded.lock is not None else None
    if recorded is not None and recorded != snapshot.digest:
        raise SourceError(
            f"{loaded.file}: R is not what the lock recorded: expected {recorded}, found {snapshot.digest}",
            remedy="restore R, or lock the task again with `ab task lock`",
        )


def _below(folder: Path, subdir: str | None) -> Path:
    """The part of a source that is R."""
    if subdir is None:
        return folder
    chosen = folder / subdir
    if not chosen.is_dir() or not chosen.resolve().is_relative_to(folder.resolve()):
        raise SourceError(f"repo.subdir: there is no folder {subdir} in the source")
    return chosen


def _hex(digest: str) -> str:
    return digest.removeprefix("sha256:")


def _git_digest(folder: Path) -> str:
    with FolderTree.at(folder / ".git") as tree:
        try:
            return tree_digest(tree.entries())
        except TreeTooLarge as error:
            raise WorkspaceError(str(error)) from error


def _read_json(path: Path) -> dict[str, object]:
    """A small file of ours; nothing when it is missing or damaged."""
    with contextlib.suppress(OSError, ValueError):
        value = json.loads(path.read_text(encoding="utf-8"))
        if isinstance(value, dict):
            return value
    return {}
