"""Reads the history of a repository from its mirror: commits, their changes, and old versions of files."""

from __future__ import annotations

import contextlib
import re
import secrets
from collections.abc import Iterator, Sequence
from pathlib import Path
from urllib.parse import unquote, urlsplit

from agentbench.core.dataclass import dataclass
from agentbench.core.errors import SourceError
from agentbench.core.package_settings import without_credentials
from agentbench.workspace.source.host_git import HostGit, error_text
from agentbench.workspace.source.location import is_local, resolve_url
from agentbench.workspace.source.mirror import Mirror, Mirrors
from agentbench.workspace.source.store import Store

SUBMODULE, SYMLINK = "160000", "120000"
_RELATIVE = re.compile(r"([^~^]+)((?:[~^][0-9]*)+)")
"""A name and steps to its ancestors, as in `HEAD~3` and `v2.0^`."""


@dataclass(frozen=True, slots=True)
class CommitChange:
    """One path that differs from the first parent of a commit. A rename is a deletion and an addition."""

    path: bytes
    status: str
    """A added, M modified, D deleted, T changed its type."""
    old_mode: str
    new_mode: str
    blob: str


@dataclass(frozen=True, slots=True)
class Commit:
    id: str
    parents: tuple[str, ...]
    date: str
    """Committer date, ISO 8601 with time zone."""
    message: str
    changes: tuple[CommitChange, ...]

    @property
    def subject(self) -> str:
        return next((line.strip() for line in self.message.splitlines() if line.strip()), "")


class Histories:
    """Opens histories in the cache folder of the snapshots, so that a repository is fetched once for both."""

    def __init__(self, cache: Path) -> None:
        """
        Raises:
            WorkspaceError: the cache cannot be used.
        """
        self._store = Store(cache.absolute())
        self._mirrors = Mirrors(self._store, HostGit(self._store.folder("git")))

    @contextlib.contextmanager
    def open(self, url: str, folder: Path) -> Iterator[History]:
        """Open the history of a repository. A relative path is resolved against `folder`.

        Raises:
            SourceError: the repository cannot be reached, or is a shallow clone.
            WorkspaceError: the harness failed.
        """
        resolved = resolve_url(url, folder)
        _reject_shallow(resolved)
        with self._mirrors.open(resolved) as mirror:
            yield History(mirror)


def _reject_shallow(url: str) -> None:
    if not is_local(url):
        return
    path = Path(unquote(urlsplit(url).path)) if url.startswith("file://") else Path(url)
    if (path / ".git/shallow").is_file() or (path / "shallow").is_file():
        raise SourceError(
            f"{without_credentials(url)} is a shallow clone, so its older history is missing",
            remedy=f"run `git -C {path} fetch --unshallow`, or use the URL it was cloned from",
        )


class History:
    """The history of one repository, used while the lock of its mirror is held."""

    def __init__(self, mirror: Mirror) -> None:
        self._mirror = mirror

    def head(self) -> str:
        """Return the newest commit of the main branch: the repository's HEAD, or a branch with a usual name.

        Raises:
            SourceError: the repository has no commit.
        """
        done = self._mirror.git.run(
            self._mirror.git_dir, "ls-remote", "-q", "--end-of-options", self._mirror.url, "HEAD"
        )
        remote_head = done.stdout.kept.decode("utf-8", "replace").split() if done.ok else []
        if remote_head:
            with contextlib.suppress(SourceError):
                return self._mirror.resolve(remote_head[0])
        for name in ("main", "master", "trunk", "develop"):
            with contextlib.suppress(SourceError):
                return self._mirror.resolve(name)
        newest = self._git("for-each-ref", "--sort=-committerdate", "--count=1", "--format=%(objectname)", "refs/heads")
        if not newest.strip():
            raise SourceError(f"{without_credentials(self._mirror.url)} has no branch with a commit")
        return newest.decode().strip()

    def commit(self, ref: str) -> Commit:
        """
        Raises:
            SourceError: there is no such commit.
        """
        (commit,) = self._log("-1", self._resolve(ref))
        return commit

    def commits(self, start: str, *, since: str | None = None, limit: int = 5000) -> list[Commit]:
        """Return up to `limit` commits from `start` backwards, newest first, without merges.

        Raises:
            SourceError: `start` does not exist, or `since` is not a date.
        """
        options = ["--no-merges", f"--max-count={limit}", *([f"--since={since}"] if since else [])]
        return self._log(*options, self._resolve(start))

    def _resolve(self, ref: str) -> str:
        match = _RELATIVE.fullmatch(ref)
        base, steps = match.groups() if match else (ref, "")
        commit = self.head() if base == "HEAD" else self._mirror.resolve(base)
        if not steps:
            return commit
        done = self._mirror.git.run(self._mirror.git_dir, "rev-parse", "--verify", "-q", f"{commit}{steps}^{{commit}}")
        if not done.ok:
            raise SourceError(f"{without_credentials(self._mirror.url)} has no commit {ref}: the history is shorter")
        return self._mirror.resolve(done.stdout.kept.decode().strip())

    def read(self, commit: str, path: str) -> bytes | None:
        """Return the content of a file in a commit; None if the commit does not have it."""
        done = self._mirror.git.run(self._mirror.git_dir, "cat-file", "blob", f"{commit}:{path}")
        return done.stdout.kept if done.ok and not done.stdout.dropped_bytes else None

    def blob(self, name: str) -> bytes:
        return self._git("cat-file", "blob", name)

    def paths(self, commit: str) -> list[str]:
        """Return the paths of all files of a commit."""
        listed = self._git("ls-tree", "-r", "-z", "--full-tree", "--name-only", f"{commit}^{{tree}}")
        return [path.decode("utf-8", "surrogateescape") for path in listed.split(b"\0") if path]

    def patch(self, before: str, after: str, paths: Sequence[bytes]) -> bytes:
        """Return the patch from one commit to another, limited to these paths."""
        names = [b":(top,literal)" + path for path in paths]
        return self._git(
            "diff", "--binary", "--full-index", "--no-renames", "--no-ext-diff", "--no-textconv", "--no-color",
            "--src-prefix=a/", "--dst-prefix=b/", before, after,
            "--", *(name.decode("utf-8", "surrogateescape") for name in names),
        )  # fmt: skip

    def release_before(self, commit: str) -> str | None:
        """Return the nearest tag at or before a commit."""
        done = self._mirror.git.run(self._mirror.git_dir, "describe", "--tags", "--abbrev=0", commit)
        return done.stdout.kept.decode("utf-8", "replace").strip() if done.ok else None

    def _log(self, *arguments: str) -> list[Commit]:
        mark = secrets.token_hex(8)  # a message may contain any byte but NUL, so the separator must be unpredictable
        fields = f"%x1e{mark}" + f"%x1f{mark}".join(("%H", "%P", "%cI", "%B", ""))
        out = self._git(
            "log", "-z", "--raw", "--no-renames", "--no-abbrev", "--root", "--diff-merges=first-parent",
            f"--format={fields}", "--no-show-signature", "--encoding=UTF-8", *arguments,
        )  # fmt: skip
        records = out.split(b"\x1e" + mark.encode())
        return [_commit(record.split(b"\x1f" + mark.encode())) for record in records[1:]]

    def _git(self, *arguments: str) -> bytes:
        done = self._mirror.git.run(self._mirror.git_dir, *arguments)
        if not done.ok:
            raise SourceError(
                f"cannot read the history of {without_credentials(self._mirror.url)}: {error_text(done)}",
                remedy="if this is a partial or damaged clone, use the URL it was cloned from",
            )
        if done.stdout.dropped_bytes:
            raise SourceError(
                f"git wrote too much output for {without_credentials(self._mirror.url)}",
                remedy="request less history or a smaller commit",
            )
        return done.stdout.kept


def _commit(fields: Sequence[bytes]) -> Commit:
    name, parents, date, message, raw = fields
    parts = [part for part in raw.lstrip(b"\0\n").split(b"\0") if part]
    changes = []
    for info, path in zip(parts[::2], parts[1::2], strict=False):
        old_mode, new_mode, _, blob, status = info.decode("ascii", "replace").lstrip("\n:").split()
        changes.append(CommitChange(path, status[:1], old_mode, new_mode, blob))
    return Commit(
        name.decode(),
        tuple(parents.decode().split()),
        date.decode(),
        message.decode("utf-8", "replace"),
        tuple(changes),
    )
