"""The history of a repository, read through its mirror: commits, what they changed, and files as they were."""

from __future__ import annotations

import contextlib
import re
import secrets
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import unquote, urlsplit

from agentbench.core.errors import SourceError
from agentbench.workspace.source.host_git import HostGit, words
from agentbench.workspace.source.location import hidden, is_local, locate
from agentbench.workspace.source.mirror import Mirror, Mirrors
from agentbench.workspace.source.store import Store

LINK, SYMLINK = "160000", "120000"
_STEPS = re.compile(r"([^~^]+)((?:[~^][0-9]*)+)")
"""A name and the steps back from it, as in `HEAD~3` and `v2.0^`."""


@dataclass(frozen=True, slots=True)
class Change:
    """One path that a commit changed against its (first) parent. A rename is a deletion and an addition."""

    path: bytes
    status: str
    """A added, M modified, D deleted, T became another kind of thing."""
    old_mode: str
    new_mode: str
    blob: str


@dataclass(frozen=True, slots=True)
class Commit:
    id: str
    parents: tuple[str, ...]
    date: str
    """Of the committer, ISO 8601 with zone."""
    message: str
    changes: tuple[Change, ...]

    @property
    def subject(self) -> str:
        return next((line.strip() for line in self.message.splitlines() if line.strip()), "")


class Histories:
    """Histories below the cache folder that snapshots use too: a repository is fetched once for both."""

    def __init__(self, cache: Path) -> None:
        """
        Raises:
            WorkspaceError: the cache cannot be used.
        """
        self._store = Store(cache.absolute())
        self._mirrors = Mirrors(self._store, HostGit(self._store.folder("git")))

    @contextlib.contextmanager
    def open(self, url: str, folder: Path) -> Iterator[History]:
        """`folder` is what a relative path is relative to.

        Raises:
            SourceError: the repository cannot be reached, or is a shallow clone.
            WorkspaceError: ours.
        """
        located = locate(url, folder)
        _refuse_shallow(located)
        with self._mirrors.open(located) as mirror:
            yield History(mirror)


def _refuse_shallow(located: str) -> None:
    if not is_local(located):
        return
    path = Path(unquote(urlsplit(located).path)) if located.startswith("file://") else Path(located)
    if (path / ".git/shallow").is_file() or (path / "shallow").is_file():
        raise SourceError(
            f"{hidden(located)} is a shallow clone: the history before it is missing",
            remedy=f"run `git -C {path} fetch --unshallow`, or give the URL it was cloned from",
        )


class History:
    """One repository, held under the lock of its mirror."""

    def __init__(self, mirror: Mirror) -> None:
        self._mirror = mirror

    def head(self) -> str:
        """The newest commit of the main branch: where the repository's own HEAD is, else as far as names tell.

        Raises:
            SourceError: the repository has no commit.
        """
        done = self._mirror.git.run(
            self._mirror.git_dir, "ls-remote", "-q", "--end-of-options", self._mirror.url, "HEAD"
        )
        named = done.stdout.kept.decode("utf-8", "replace").split() if done.ok else []
        if named:
            with contextlib.suppress(SourceError):
                return self._mirror.resolve(named[0])
        for name in ("main", "master", "trunk", "develop"):
            with contextlib.suppress(SourceError):
                return self._mirror.resolve(name)
        newest = self._git("for-each-ref", "--sort=-committerdate", "--count=1", "--format=%(objectname)", "refs/heads")
        if not newest.strip():
            raise SourceError(f"{hidden(self._mirror.url)} has no branch with a commit")
        return newest.decode().strip()

    def commit(self, wanted: str) -> Commit:
        """
        Raises:
            SourceError: there is no such commit.
        """
        found = self._resolve(wanted)
        (commit,) = self._log("-1", found)
        return commit

    def commits(self, start: str, *, since: str | None = None, limit: int = 5000) -> list[Commit]:
        """From `start` backwards, newest first, without merges, `limit` at most.

        Raises:
            SourceError: `start` is not there, or `since` is no date.
        """
        options = ["--no-merges", f"--max-count={limit}", *([f"--since={since}"] if since else [])]
        return self._log(*options, self._resolve(start))

    def _resolve(self, wanted: str) -> str:
        match = _STEPS.fullmatch(wanted)
        base, steps = match.groups() if match else (wanted, "")
        found = self.head() if base == "HEAD" else self._mirror.resolve(base)
        if not steps:
            return found
        done = self._mirror.git.run(self._mirror.git_dir, "rev-parse", "--verify", "-q", f"{found}{steps}^{{commit}}")
        if not done.ok:
            raise SourceError(f"{hidden(self._mirror.url)} has no commit {wanted}: its history is not that long")
        return self._mirror.resolve(done.stdout.kept.decode().strip())

    def read(self, commit: str, path: str) -> bytes | None:
        """A file as a commit has it; None when it has none there."""
        done = self._mirror.git.run(self._mirror.git_dir, "cat-file", "blob", f"{commit}:{path}")
        return done.stdout.kept if done.ok and not done.stdout.dropped_bytes else None

    def blob(self, name: str) -> bytes:
        return self._git("cat-file", "blob", name)

    def paths(self, commit: str) -> list[str]:
        """Every file of a commit."""
        listed = self._git("ls-tree", "-r", "-z", "--full-tree", "--name-only", f"{commit}^{{tree}}")
        return [path.decode("utf-8", "surrogateescape") for path in listed.split(b"\0") if path]

    def patch(self, before: str, after: str, paths: Sequence[bytes]) -> bytes:
        """What leads from one commit to another at these paths, in git's format."""
        names = [b":(top,literal)" + path for path in paths]
        return self._git(
            "diff", "--binary", "--full-index", "--no-renames", "--no-ext-diff", "--no-textconv", "--no-color",
            "--src-prefix=a/", "--dst-prefix=b/", before, after,
            "--", *(name.decode("utf-8", "surrogateescape") for name in names),
        )  # fmt: skip

    def release_before(self, commit: str) -> str | None:
        """The nearest tag at or before a commit."""
        done = self._mirror.git.run(self._mirror.git_dir, "describe", "--tags", "--abbrev=0", commit)
        return done.stdout.kept.decode("utf-8", "replace").strip() if done.ok else None

    def _log(self, *arguments: str) -> list[Commit]:
        mark = secrets.token_hex(8)  # a message may hold any byte but NUL: what parts the fields must be unknown to it
        fields = f"%x1e{mark}" + f"%x1f{mark}".join(("%H", "%P", "%cI", "%B", ""))
        out = self._git(
            "log", "-z", "--raw", "--no-renames", "--no-abbrev", "--root", "--diff-merges=first-parent", f"--format={fields}",
            "--no-show-signature", "--encoding=UTF-8", *arguments,
        )  # fmt: skip
        records = out.split(b"\x1e" + mark.encode())
        return [_commit(record.split(b"\x1f" + mark.encode())) for record in records[1:]]

    def _git(self, *arguments: str) -> bytes:
        done = self._mirror.git.run(self._mirror.git_dir, *arguments)
        if not done.ok:
            raise SourceError(
                f"{hidden(self._mirror.url)}: its history cannot be read: {words(done)}",
                remedy="a partial or damaged clone? Give the URL it was cloned from",
            )
        if done.stdout.dropped_bytes:
            raise SourceError(
                f"{hidden(self._mirror.url)}: more than is read at once; ask for less history or a smaller commit"
            )
        return done.stdout.kept


def _commit(fields: Sequence[bytes]) -> Commit:
    name, parents, date, message, raw = fields
    parts = [part for part in raw.lstrip(b"\0\n").split(b"\0") if part]
    changes = []
    for head, path in zip(parts[::2], parts[1::2], strict=False):
        old_mode, new_mode, _, blob, status = head.decode("ascii", "replace").lstrip("\n:").split()
        changes.append(Change(path, status[:1], old_mode, new_mode, blob))
    return Commit(
        name.decode(),
        tuple(parents.decode().split()),
        date.decode(),
        message.decode("utf-8", "replace"),
        tuple(changes),
    )
