"""Bare mirrors of remote repositories. A commit that was fetched once stays, whatever the remote does later."""

from __future__ import annotations

import contextlib
import hashlib
import re
from collections.abc import Iterator
from pathlib import Path

from agentbench.core.errors import SourceError, WorkspaceError
from agentbench.core.package_settings import without_credentials
from agentbench.workspace.source.host_git import HostGit, error_text
from agentbench.workspace.source.location import require_repository
from agentbench.workspace.source.store import Store, as_workspace_error, make_folder, publish, remove_tree

FULL_ID = re.compile(r"[0-9a-f]{40}")
_ABBREVIATED = re.compile(r"[0-9a-f]{4,39}")
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._/+-]{0,255}")
_REFS = ("+refs/heads/*:refs/heads/*", "+refs/tags/*:refs/tags/*")
_FETCH_SEC = 1800.0
_RAW = "* -text -eol -ident -filter -working-tree-encoding\n"
"""Files are checked out byte for byte, whatever attributes the commit declares."""


class MirrorDamaged(Exception):
    """A mirror lacks objects that it should have."""


class Mirror:
    """One bare repository, used while its lock is held."""

    def __init__(self, git: HostGit, git_dir: Path, url: str) -> None:
        self.git = git
        self.git_dir = git_dir
        self.url = url

    def resolve(self, ref: str) -> str:
        """Return the full id of the commit that `ref` names, and fetch it if necessary.

        Full and abbreviated ids are looked up in the mirror first, so they are fetched only once. Other names can move:
        they are always fetched, and the mirror is used as it is if the remote cannot be reached.

        Raises:
            SourceError: there is no such commit, or the abbreviation is ambiguous.
        """
        if not _NAME.fullmatch(ref) or ".." in ref:
            raise SourceError(f"not a valid commit, tag or branch: {ref!r}")
        can_move = not (FULL_ID.fullmatch(ref) or _ABBREVIATED.fullmatch(ref))
        commit = None if can_move else self._find(ref)
        if commit is None:
            problem = self.fetch(*_REFS)
            commit = self._find(ref)
            if commit is None and FULL_ID.fullmatch(ref):
                # Many hosts serve a commit by its id even if it is on no branch.
                problem = self.fetch(ref) or problem
                commit = self._find(ref)
            if commit is None:
                reason = f"; fetching failed: {problem}" if problem else ""
                raise SourceError(
                    f"{without_credentials(self.url)} has no commit {ref}{reason}",
                    remedy="check `repo.commit` and that it was pushed",
                )
        self.git.run_checked(self.git_dir, "update-ref", f"refs/agentbench/{commit}", commit)
        return commit

    def _find(self, ref: str) -> str | None:
        if _ABBREVIATED.fullmatch(ref):
            listed = self.git.run(self.git_dir, "rev-parse", f"--disambiguate={ref}").stdout.kept.decode().split()
            commits = [object_id for object_id in listed if self._commit(object_id) == object_id]
            if len(commits) > 1:
                raise SourceError(f"{without_credentials(self.url)}: the commit id {ref} is ambiguous")
            if commits:
                return commits[0]
        if FULL_ID.fullmatch(ref):
            return self._commit(ref)
        for name in (f"refs/tags/{ref}", f"refs/heads/{ref}"):
            commit = self._commit(name)
            if commit is not None:
                return commit
        return None

    def _commit(self, name: str) -> str | None:
        done = self.git.run(self.git_dir, "rev-parse", "--verify", "-q", "--end-of-options", f"{name}^{{commit}}")
        return done.stdout.kept.decode().strip() if done.ok else None

    def fetch(self, *refs: str) -> str | None:
        """Fetch into the mirror. Return git's message if that failed. Refs are pruned, objects are never removed."""
        done = self.git.run(
            self.git_dir,
            "fetch", "-q", "--force", "--prune", "--no-tags", "--no-write-fetch-head", "--no-auto-maintenance",
            "--end-of-options", self.url, *refs,
            timeout_sec=_FETCH_SEC,
        )  # fmt: skip
        return None if done.ok else without_credentials(error_text(done))

    def checkout(self, commit: str, folder: Path, index: Path) -> None:
        """Write the files of a commit into an empty folder. Submodules stay empty folders.

        Raises:
            MirrorDamaged: the mirror lacks objects of the commit.
            WorkspaceError: the host is out of disk space or memory.
        """
        env = {"GIT_INDEX_FILE": str(index)}
        for arguments in (("read-tree", f"{commit}^{{tree}}"), ("checkout-index", "-a", "-q", "-f")):
            done = self.git.run(self.git_dir, *arguments, work_tree=folder, env=env, timeout_sec=_FETCH_SEC)
            if not done.ok:
                raise MirrorDamaged(error_text(done))

    def submodules(self, commit: str) -> dict[bytes, str]:
        """Return the revision of every submodule of a commit, by path."""
        listed = self.git.run_checked(
            self.git_dir, "ls-tree", "-r", "-z", "--full-tree", f"{commit}^{{tree}}", error=SourceError
        )
        revisions: dict[bytes, str] = {}
        for line in listed.split(b"\0"):
            info, _, path = line.partition(b"\t")
            if info.startswith(b"160000 "):
                revisions[path] = info.split()[2].decode()
        return revisions

    def submodule_urls(self, commit: str) -> dict[bytes, str]:
        """Return the URLs of submodules from the `.gitmodules` of a commit, by path."""
        blob = f"{commit}:.gitmodules"
        done = self.git.run(self.git_dir, "config", "--no-includes", "--blob", blob, "-z", "--list")
        values: dict[tuple[bytes, bytes], bytes] = {}
        for item in done.stdout.kept.split(b"\0") if done.ok else ():
            key, _, value = item.partition(b"\n")
            section, _, rest = key.partition(b".")
            name, _, variable = rest.rpartition(b".")
            if section == b"submodule":
                values[name, variable] = value
        return {
            path: values[name, b"url"].decode("utf-8", "surrogateescape")
            for (name, variable), path in values.items()
            if variable == b"path" and (name, b"url") in values
        }


class Mirrors:
    """The mirrors in a cache."""

    def __init__(self, store: Store, git: HostGit) -> None:
        self._store = store
        self._git = git

    @contextlib.contextmanager
    def open(self, url: str) -> Iterator[Mirror]:
        """Lock the mirror of a repository and create it if necessary.

        Raises:
            SourceError: the repository cannot be reached.
            WorkspaceError: the harness failed.
        """
        name = _mirror_name(url)
        with self._store.lock(f"mirror-{name}"), as_workspace_error("cannot use a mirror"):
            git_dir = self._store.folder("mirrors", f"{name}.git")
            if self._is_repository(git_dir):
                self._remove_stale_files(git_dir)
            else:
                self._clone(url, git_dir)
            yield Mirror(self._git, git_dir, url)

    def remove(self, url: str) -> None:
        """Remove a damaged mirror."""
        name = _mirror_name(url)
        with self._store.lock(f"mirror-{name}"):
            remove_tree(self._store.folder("mirrors", f"{name}.git"))

    def _is_repository(self, git_dir: Path) -> bool:
        return git_dir.is_dir() and self._git.run(git_dir, "rev-parse", "--is-bare-repository").stdout.kept == b"true\n"

    def _clone(self, url: str, git_dir: Path) -> None:
        with self._store.scratch() as scratch:
            fresh = scratch / "mirror.git"
            self._git.run_checked(fresh, "init", "-q", "--bare", "--template=")
            (fresh / "info").mkdir(exist_ok=True)
            (fresh / "info" / "attributes").write_text(_RAW, encoding="utf-8")
            problem = Mirror(self._git, fresh, url).fetch(*_REFS)
            if problem is not None:
                require_repository(url)
                raise SourceError(
                    f"cannot fetch the repository {without_credentials(url)}: {problem}",
                    remedy="check `repo.url`, the network, and that the repository needs no password",
                )
            if git_dir.exists():
                git_dir.rename(scratch / "broken")
            make_folder(git_dir.parent)
            publish(fresh, git_dir)
        if not git_dir.is_dir():
            raise WorkspaceError(f"the mirror {git_dir} disappeared")

    @staticmethod
    def _remove_stale_files(git_dir: Path) -> None:
        """Remove locks and partial packs of killed processes. The mirror is locked, so no running process uses them."""
        for path in (*git_dir.glob("*.lock"), *git_dir.glob("refs/**/*.lock"), *git_dir.glob("objects/pack/tmp_*")):
            path.unlink(missing_ok=True)


def _mirror_name(url: str) -> str:
    return hashlib.sha256(url.encode("utf-8", "surrogateescape")).hexdigest()[:40]
