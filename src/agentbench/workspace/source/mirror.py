"""Bare copies of remote repositories, fetched once and kept: what was pinned stays, whatever the remote does later."""

from __future__ import annotations

import contextlib
import hashlib
import re
from collections.abc import Iterator
from pathlib import Path

from agentbench.core.errors import SourceError, WorkspaceError
from agentbench.workspace.source.host_git import HostGit, words
from agentbench.workspace.source.location import hidden
from agentbench.workspace.source.store import Store, make_folder, ours, publish, remove

FULL_ID = re.compile(r"[0-9a-f]{40}")
_ABBREVIATED = re.compile(r"[0-9a-f]{4,39}")
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._/+-]{0,255}")
_REFS = ("+refs/heads/*:refs/heads/*", "+refs/tags/*:refs/tags/*")
_FETCH_SEC = 1800.0
_RAW = "* -text -eol -ident -filter -working-tree-encoding\n"
"""A checkout gives the bytes of the commit, whatever attributes it declares."""


class Damaged(Exception):
    """A mirror has not what it should have."""


class Mirror:
    """One bare repository, held under its lock."""

    def __init__(self, git: HostGit, git_dir: Path, url: str) -> None:
        self.git = git
        self.git_dir = git_dir
        self.url = url

    def resolve(self, wanted: str) -> str:
        """The full id of the commit that `wanted` names, fetched if need be.

        A full id is looked for here first, so nothing is fetched for it twice. So is an abbreviated one. Any other name
        can move: it is asked for again, and what is here is used when the remote cannot be reached.

        Raises:
            SourceError: there is no such commit, or an abbreviation fits several.
        """
        if not _NAME.fullmatch(wanted) or ".." in wanted:
            raise SourceError(f"not a commit: {wanted!r}")
        moving = not (FULL_ID.fullmatch(wanted) or _ABBREVIATED.fullmatch(wanted))
        found = None if moving else self._find(wanted)
        if found is None:
            trouble = self._fetch(*_REFS)
            found = self._find(wanted)
            if found is None and FULL_ID.fullmatch(wanted):
                # Not on any branch: many hosts still hand out a commit that is asked for by its id.
                trouble = self._fetch(wanted) or trouble
                found = self._find(wanted)
            if found is None:
                why = f"; the remote: {trouble}" if trouble else ""
                raise SourceError(
                    f"{hidden(self.url)} has no commit {wanted}{why}",
                    remedy="check `repo.commit` and that it was pushed",
                )
        self.git.must(self.git_dir, "update-ref", f"refs/agentbench/{found}", found)
        return found

    def _find(self, wanted: str) -> str | None:
        if _ABBREVIATED.fullmatch(wanted):
            listed = self.git.run(self.git_dir, "rev-parse", f"--disambiguate={wanted}").stdout.kept.decode().split()
            commits = [found for one in listed if (found := self._commit(one)) == one]
            if len(commits) > 1:
                raise SourceError(f"{hidden(self.url)}: the commit id {wanted} fits several commits")
            if commits:
                return commits[0]
        if FULL_ID.fullmatch(wanted):
            return self._commit(wanted)
        for name in (f"refs/tags/{wanted}", f"refs/heads/{wanted}"):
            found = self._commit(name)
            if found is not None:
                return found
        return None

    def _commit(self, name: str) -> str | None:
        done = self.git.run(self.git_dir, "rev-parse", "--verify", "-q", "--end-of-options", f"{name}^{{commit}}")
        return done.stdout.kept.decode().strip() if done.ok else None

    def _fetch(self, *what: str) -> str | None:
        """Fetch into the mirror; git's words if that failed. Pruning frees names; objects stay, nothing is collected."""
        done = self.git.run(
            self.git_dir,
            "fetch", "-q", "--force", "--prune", "--no-tags", "--no-write-fetch-head", "--no-auto-maintenance", "--end-of-options",
            self.url, *what,
            timeout_sec=_FETCH_SEC,
        )  # fmt: skip
        return None if done.ok else hidden(words(done))

    def checkout(self, commit: str, folder: Path, index: Path) -> None:
        """Write the files of a commit into an empty folder. Submodules stay empty folders.

        Raises:
            Damaged: the mirror lacks objects of the commit.
            WorkspaceError: the disk.
        """
        extra = {"GIT_INDEX_FILE": str(index)}
        for arguments in (("read-tree", f"{commit}^{{tree}}"), ("checkout-index", "-a", "-q", "-f")):
            done = self.git.run(self.git_dir, *arguments, work_tree=folder, extra=extra, timeout_sec=_FETCH_SEC)
            if not done.ok:
                raise Damaged(words(done))

    def links(self, commit: str) -> dict[bytes, str]:
        """Path and revision of every submodule of a commit."""
        listed = self.git.must(
            self.git_dir, "ls-tree", "-r", "-z", "--full-tree", f"{commit}^{{tree}}", error=SourceError
        )
        found: dict[bytes, str] = {}
        for line in listed.split(b"\0"):
            head, _, path = line.partition(b"\t")
            if head.startswith(b"160000 "):
                found[path] = head.split()[2].decode()
        return found

    def link_urls(self, commit: str) -> dict[bytes, str]:
        """Where the submodules of a commit are, as its `.gitmodules` says."""
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
    """All mirrors of a cache."""

    def __init__(self, store: Store, git: HostGit) -> None:
        self._store = store
        self._git = git

    @contextlib.contextmanager
    def open(self, url: str) -> Iterator[Mirror]:
        """The mirror of a repository, made if it is not there, locked while it is used.

        Raises:
            SourceError: the repository cannot be reached.
            WorkspaceError: ours.
        """
        name = hashlib.sha256(url.encode("utf-8", "surrogateescape")).hexdigest()[:40]
        with self._store.lock(f"mirror-{name}"), ours("a mirror cannot be used"):
            git_dir = self._store.folder("mirrors", f"{name}.git")
            if self._is_repository(git_dir):
                self._unlock(git_dir)
            else:
                self._clone(url, git_dir)
            yield Mirror(self._git, git_dir, url)

    def forget(self, url: str) -> None:
        """Remove a mirror that turned out to be damaged."""
        name = hashlib.sha256(url.encode("utf-8", "surrogateescape")).hexdigest()[:40]
        with self._store.lock(f"mirror-{name}"):
            remove(self._store.folder("mirrors", f"{name}.git"))

    def _is_repository(self, git_dir: Path) -> bool:
        return git_dir.is_dir() and self._git.run(git_dir, "rev-parse", "--is-bare-repository").stdout.kept == b"true\n"

    def _clone(self, url: str, git_dir: Path) -> None:
        with self._store.scratch() as scratch:
            made = scratch / "mirror.git"
            self._git.must(made, "init", "-q", "--bare", "--template=")
            (made / "info").mkdir(exist_ok=True)
            (made / "info" / "attributes").write_text(_RAW, encoding="utf-8")
            trouble = Mirror(self._git, made, url)._fetch(*_REFS)  # noqa: SLF001 - one class in two parts
            if trouble is not None:
                raise SourceError(
                    f"the repository {hidden(url)} cannot be fetched: {trouble}",
                    remedy="check `repo.url`, the network and that no password is needed",
                )
            if git_dir.exists():
                git_dir.rename(scratch / "broken")
            make_folder(git_dir.parent)
            publish(made, git_dir)
        if not git_dir.is_dir():
            raise WorkspaceError(f"the mirror {git_dir} vanished")

    @staticmethod
    def _unlock(git_dir: Path) -> None:
        """We hold the mirror, so a lock or a half pack in it was left by a process that was killed."""
        for left in (*git_dir.glob("*.lock"), *git_dir.glob("refs/**/*.lock"), *git_dir.glob("objects/pack/tmp_*")):
            left.unlink(missing_ok=True)
