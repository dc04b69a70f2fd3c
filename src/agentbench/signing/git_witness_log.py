"""The witness log on a branch of a git repository. Every entry is a commit; the checked out branch is never touched.

The branch moves only if no other process moved it meanwhile, so processes on one repository do not lose entries. Push the branch to
a server that refuses forced pushes, so that its last entries cannot be removed either.

The repository may come from others, and git executes programs that a repository's configuration and hooks name. So git never runs
in it: it runs in a temporary git directory with a configuration of its own, whose objects, branches and reflogs are links to those
of the repository.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from agentbench.core.dataclass import dataclass
from agentbench.core.errors import InputError
from agentbench.core.text import printable
from agentbench.signing.witness_log import LOG, Add, Entry
from agentbench.trace.verify import Problem
from agentbench.workspace.source.host_git import HostGit, error_text

BRANCH = "refs/heads/agentbench-witness"
ATTEMPTS = 100
MAX_COMMITS = 100_000
_LINKED = ("objects", "refs", "packed-refs", "logs", "reftable")
"""Parts of a git directory that are data only."""
_FORMATS = {"objectformat": ("sha1", "sha256"), "refstorage": ("files", "reftable")}
"""Settings of a repository that its data cannot be read without, with the values that are accepted."""
_OVERRIDES = {
    "core.logAllRefUpdates": "true",
    "core.filesRefLockTimeout": "10000",  # ms; another process may hold the lock while the machine is busy
}
"""Settings for every call."""


@dataclass(frozen=True, slots=True)
class _Repository:
    git: HostGit
    folder: Path
    """The temporary git directory."""
    place: Path

    def output(self, *arguments: str, stdin: bytes = b"", env: Mapping[str, str] | None = None) -> bytes:
        return self.git.run_checked(
            self.folder, *arguments, error=InputError, stdin=stdin, env={**_configuration(), **(env or {})}
        )

    def tip(self) -> str:
        """Return the last commit of the branch, or an empty string if there is none."""
        done = self.git.run(self.folder, "rev-parse", "--verify", "--quiet", BRANCH, env=_configuration())
        return done.stdout.kept.decode().strip() if done.ok else ""

    def log(self, commit: str) -> bytes:
        return self.output("cat-file", "blob", f"{commit}:{LOG}") if commit else b""

    def move(self, old: str, new: str) -> bool:
        """Move the branch, and return whether it still was at `old`. If that is empty, create the branch.

        Raises:
            InputError: git failed for another reason.
        """
        done = self.git.run(self.folder, "update-ref", BRANCH, new, old, env=_configuration())
        if not done.ok and self.tip() == old:
            first_line = done.stderr.kept.decode("utf-8", "replace").partition("\n")[0]  # advice follows
            raise InputError(f"git update-ref failed in {self.place}: {first_line or error_text(done)}")
        return done.ok


def append_commit(place: Path, add: Add) -> Entry:
    """Commit one more entry to the branch.

    Raises:
        InputError: the log is broken, or the repository cannot be written.
    """
    with _repository(place) as repository:
        for _ in range(ATTEMPTS):
            tip = repository.tip()
            data = repository.log(tip)
            line, entry = add(data)
            blob = repository.output("hash-object", "-w", "--stdin", stdin=data + line + b"\n").decode().strip()
            tree = repository.output("mktree", stdin=f"100644 blob {blob}\t{LOG}\n".encode()).decode().strip()
            parent = ["-p", tip] if tip else []
            message = f"Witness {entry.name}\n\nrun {entry.run_id}\nhead {entry.head}\n"
            commit = repository.output("commit-tree", tree, *parent, stdin=message.encode(), env=_author(entry))
            if repository.move(tip, commit.decode().strip()):
                return entry
    raise InputError(f"{place}: other processes moved {BRANCH} {ATTEMPTS} times meanwhile", remedy="try again")


def existing_log(place: Path) -> bytes:
    """Return the log of the last commit; empty if there is no branch.

    Raises:
        InputError: the repository cannot be read.
    """
    with _repository(place) as repository:
        return repository.log(repository.tip())


def committed_log(place: Path) -> tuple[bytes, Problem | None]:
    """Return the log of the last commit, and the first commit that did more than append to it.

    Raises:
        InputError: the repository has no such branch.
    """
    with _repository(place) as repository:
        tip = repository.tip()
        if not tip:
            msg = f"{place} has no branch {BRANCH.removeprefix('refs/heads/')}"
            raise InputError(
                msg, remedy="`ab sign RUN --witness DIR` creates it; fetch it from the server if it is there"
            )
        before = b""
        listing = repository.output("rev-list", "--first-parent", f"--max-count={MAX_COMMITS + 1}", tip)
        commits = listing.decode().split()
        if len(commits) > MAX_COMMITS:
            raise InputError(f"{place}: {BRANCH} has more than {MAX_COMMITS} commits")
        for commit in reversed(commits):
            data = repository.log(commit)
            if not data.startswith(before):
                return data, Problem("changed", LOG, f"commit {commit[:12]} changed earlier lines of the log")
            before = data
        return before, None


@contextmanager
def _repository(place: Path) -> Iterator[_Repository]:
    source = (place / ".git" if (place / ".git").is_dir() else place).absolute()
    if (place / ".git").is_file():
        raise InputError(f"{place} is a linked work tree", remedy="give the main work tree, or a bare repository")
    with tempfile.TemporaryDirectory(prefix="agentbench-git-") as home:
        git, folder = HostGit(Path(home) / "home"), Path(home) / "repository"
        folder.mkdir()
        formats = _formats(git, folder, source)
        (folder / "HEAD").write_text("ref: refs/heads/none\n")
        (folder / "config").write_text(_config_text(formats))
        for name in _LINKED:
            if name not in {"logs", "reftable"} or (source / name).is_dir():
                (folder / name).symlink_to(source / name)
        yield _Repository(git, folder, place)


def _formats(git: HostGit, folder: Path, source: Path) -> dict[str, str]:
    """Read the formats of a repository from its configuration, without acting on any of it.

    Raises:
        InputError: a format is unknown.
    """
    formats = {}
    for name, accepted in _FORMATS.items():
        key = f"extensions.{name}"
        done = git.run(folder, "config", "--file", str(source / "config"), "--no-includes", "--get", key)
        value = done.stdout.kept.decode("utf-8", "replace").strip().lower() if done.ok else accepted[0]
        if value not in accepted:
            raise InputError(f"{source}: {key} is {printable(value[:40])!r}, expected {' or '.join(accepted)}")
        if value != accepted[0]:
            formats[name] = value
    return formats


def _config_text(formats: Mapping[str, str]) -> str:
    lines = ["[core]", f"\trepositoryFormatVersion = {1 if formats else 0}", "\tbare = true"]
    lines += ["[extensions]", *(f"\t{name} = {value}" for name, value in formats.items())] if formats else []
    return "\n".join(lines) + "\n"


def _configuration() -> dict[str, str]:
    values = {"GIT_CONFIG_COUNT": str(len(_OVERRIDES))}
    for number, (key, value) in enumerate(_OVERRIDES.items()):
        values |= {f"GIT_CONFIG_KEY_{number}": key, f"GIT_CONFIG_VALUE_{number}": value}
    return values


def _author(entry: Entry) -> dict[str, str]:
    person = {"NAME": "agentbench witness", "EMAIL": "witness@localhost", "DATE": entry.witnessed_at}
    return {f"GIT_{role}_{key}": value for role in ("AUTHOR", "COMMITTER") for key, value in person.items()}
