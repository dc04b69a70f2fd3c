"""Snapshots of base repositories in a cache, found by their source and by their digest."""

from __future__ import annotations

import contextlib
import hashlib
import json
import threading
from collections.abc import Callable, Mapping
from dataclasses import field
from pathlib import Path

from agentbench.contract.load import LoadedTask
from agentbench.contract.schema import Repo
from agentbench.core.atomic_file import write_atomic
from agentbench.core.dataclass import dataclass
from agentbench.core.errors import SourceError, WorkspaceError
from agentbench.tree.entry import tree_digest
from agentbench.tree.folder import FolderTree
from agentbench.tree.limits import TreeTooLarge
from agentbench.workspace.source.agent_repository import create_repository
from agentbench.workspace.source.folder import FolderSource, read_entries
from agentbench.workspace.source.git import GitSource
from agentbench.workspace.source.host_git import HostGit
from agentbench.workspace.source.materialize import Source, SourceLimits
from agentbench.workspace.source.mirror import Mirrors
from agentbench.workspace.source.store import Store, as_workspace_error, make_folder, make_readable, publish

_FORMAT = 1
"""Part of every name in the cache, so that entries of another format are never used."""


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A base repository in the cache.

    `folder` has its files and a `.git` with one commit; it is shared and must not be changed. `digest` covers
    the files. `source` describes their origin, with every resolved revision.
    """

    folder: Path
    digest: str
    source: Mapping[str, str] = field(default_factory=dict)


class Snapshots:
    """The snapshots in one cache folder, which threads and processes may share."""

    def __init__(self, cache: Path, *, limits: SourceLimits | None = None, stop: threading.Event | None = None) -> None:
        """Open the cache. When `stop` is set, running git commands are killed and no further one starts.

        Raises:
            WorkspaceError: the cache cannot be used.
        """
        self._store = Store(cache.absolute())
        self._limits = limits or SourceLimits()
        self._git = HostGit(self._store.folder("git"), stop)
        self._verified: set[str] = set()
        self._guard = threading.Lock()

    def materialize(self, loaded: LoadedTask) -> Snapshot:
        """Return the base repository of a task. Fetch it if it is not in the cache.

        Raises:
            SourceError: the pinned content is not available, or differs from the task's lock file.
            WorkspaceError: the harness failed.
        """
        repo = loaded.task.repo
        if not isinstance(repo, Repo):
            return self.empty()
        with as_workspace_error("cannot materialize the base repository"):
            snapshot = self._find_or_create(self._source(repo, loaded), repo.subdir)
        _check_lock(loaded, snapshot)
        return snapshot

    def by_digest(self, digest: str) -> Snapshot | None:
        """Return a cached base repository by its digest; None if it is missing or damaged."""
        with as_workspace_error("cannot read the cache"):
            return Snapshot(self._folder(digest), digest, {"kind": "cache"}) if self._is_intact(digest) else None

    def add(self, digest: str, fill: Callable[[Path], None]) -> Snapshot:
        """Add a base repository that came from another cache, unless this one has it. `fill` writes its packed folder.

        Raises:
            WorkspaceError: what was written does not have the digest.
        """
        with as_workspace_error("cannot write to the cache"), self._store.lock(f"snapshot-{_hex(digest)}"):
            if not self._is_intact(digest):
                with self._store.scratch() as scratch:
                    snapshot = scratch / "snapshot"
                    snapshot.mkdir()
                    fill(snapshot)
                    self._publish(snapshot, digest, scratch)
        return Snapshot(self._folder(digest), digest, {"kind": "cache"})

    def empty(self) -> Snapshot:
        """Return the base repository of a task that has none."""
        folder = self._store.folder("empty")
        with as_workspace_error("cannot write to the cache"):
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
                repo.origin if repo.origin and not (loaded.folder / repo.url).exists() else repo.url,
                locked or repo.commit,
                folder=loaded.folder,
                submodules=repo.submodules,
            )
        if repo.archive is not None and repo.sha256 is not None:
            from agentbench.workspace.source.archive import ArchiveSource  # noqa: PLC0415 - imports HTTP and TLS

            return ArchiveSource(self._store, repo.archive, repo.sha256, folder=loaded.folder, limits=self._limits)
        raise SourceError(f"{loaded.file}: repo: expected url and commit, archive and sha256, or path")

    def _find_or_create(self, source: Source, subdir: str | None) -> Snapshot:
        name = hashlib.sha256(json.dumps([_FORMAT, source.key(), subdir]).encode()).hexdigest()[:40]
        with self._store.lock(f"source-{name}"):
            record = _read_json(self._record(name))
            digest, facts = record.get("digest"), record.get("source")
            if isinstance(digest, str) and isinstance(facts, dict) and self._is_intact(digest):
                return Snapshot(self._folder(digest), digest, {str(key): str(value) for key, value in facts.items()})
            return self._create(source, subdir, name)

    def _create(self, source: Source, subdir: str | None, name: str) -> Snapshot:
        with self._store.scratch() as scratch:
            root = scratch / "tree"
            root.mkdir()
            facts = dict(source.materialize(root))
            folder = root if isinstance(source, FolderSource) else _subfolder(root, subdir)
            entries = read_entries(folder, self._limits)
            digest = tree_digest(entries)
            with self._store.lock(f"snapshot-{_hex(digest)}"):
                if not self._is_intact(digest):
                    self._build(folder, digest, len(entries), scratch)
            record = {"digest": digest, "source": facts}
            make_folder(self._record(name).parent)
            write_atomic(self._record(name), json.dumps(record, sort_keys=True).encode())
        return Snapshot(self._folder(digest), digest, facts)

    def _build(self, folder: Path, digest: str, entries: int, scratch: Path) -> None:
        """Add the repository to a tree and move it into the cache."""
        create_repository(self._git, folder, entries)
        make_readable(folder)
        snapshot = scratch / "snapshot"
        snapshot.mkdir()
        folder.rename(snapshot / "tree")
        seal = {"format": _FORMAT, "digest": digest, "git": _git_digest(snapshot / "tree")}
        (snapshot / "seal.json").write_text(json.dumps(seal, sort_keys=True), encoding="utf-8")
        self._publish(snapshot, digest, scratch)

    def _publish(self, snapshot: Path, digest: str, scratch: Path) -> None:
        make_readable(snapshot)
        target = self._folder(digest).parent
        if target.exists():  # damaged, otherwise it would have been used
            target.rename(scratch / "broken")
        publish(snapshot, target)
        if not self._is_intact(digest):
            raise WorkspaceError(f"the snapshot was damaged while it was written: {target}")

    def _is_intact(self, digest: str) -> bool:
        """Return whether a cached snapshot exists and still has its digest. Content is verified once per process."""
        folder = self._folder(digest)
        with self._guard:
            if digest in self._verified and folder.is_dir():
                return True
        seal = _read_json(folder.parent / "seal.json")
        if seal.get("format") != _FORMAT or seal.get("digest") != digest or not folder.is_dir():
            return False
        try:
            intact = tree_digest(read_entries(folder, self._limits)) == digest and _git_digest(folder) == seal.get(
                "git"
            )
        except (SourceError, WorkspaceError):
            return False
        if intact:
            with self._guard:
                self._verified.add(digest)
        return intact

    def _folder(self, digest: str) -> Path:
        return self._store.folder("snapshots", f"{_hex(digest)}-{_FORMAT}", "tree")

    def _record(self, name: str) -> Path:
        return self._store.folder("sources", f"{name}.json")


def _check_lock(loaded: LoadedTask, snapshot: Snapshot) -> None:
    """Require the digest that the lock file recorded."""
    recorded = loaded.lock.source.digest if loaded.lock is not None else None
    if recorded is not None and recorded != snapshot.digest:
        raise SourceError(
            f"{loaded.file}: the base repository differs from the lock: expected {recorded}, found {snapshot.digest}",
            remedy="restore the base repository, or lock the task again with `ab task lock`",
        )


def _subfolder(folder: Path, subdir: str | None) -> Path:
    if subdir is None:
        return folder
    chosen = folder / subdir
    if not chosen.is_dir() or not chosen.resolve().is_relative_to(folder.resolve()):
        raise SourceError(f"repo.subdir: the source has no folder {subdir}")
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
    """Read a JSON object of the cache; empty if the file is missing or damaged."""
    with contextlib.suppress(OSError, ValueError):
        value = json.loads(path.read_text(encoding="utf-8"))
        if isinstance(value, dict):
            return value
    return {}
