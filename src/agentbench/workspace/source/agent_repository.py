"""The `.git` that an agent gets: one commit of R, and nothing else to find in it."""

from __future__ import annotations

from pathlib import Path

from agentbench.core.errors import SourceError
from agentbench.workspace.source.host_git import HostGit
from agentbench.workspace.source.store import open_up, ours, remove

_RAW = "* -text -eol -ident -filter -working-tree-encoding -merge -diff\n"
"""Content goes in as it is, whatever attributes R declares."""

_IDENTITY = {
    f"GIT_{role}_{key}": value
    for role in ("AUTHOR", "COMMITTER")
    for key, value in (("NAME", "snapshot"), ("EMAIL", "snapshot@localhost"), ("DATE", "2000-01-01T00:00:00+0000"))
}
"""Fixed, so that the same content gives the same commit everywhere."""

_STRAIGHT_INTO_A_PACK = {
    "GIT_CONFIG_COUNT": "2",
    "GIT_CONFIG_KEY_0": "core.bigFileThreshold",
    "GIT_CONFIG_VALUE_0": "1",
    "GIT_CONFIG_KEY_1": "core.compression",
    "GIT_CONFIG_VALUE_1": "1",
}
"""Three times as fast as a file per object that is packed afterwards with a search for deltas."""

_AGENT_CONFIG = """\
[core]
	repositoryformatversion = 0
	filemode = true
	bare = false
	logallrefupdates = true
[user]
	name = agent
	email = agent@localhost
"""

_KEPT = frozenset({"HEAD", "config", "index", "objects", "refs"})


def single_commit(git: HostGit, folder: Path, entries: int) -> None:
    """Put a `.git` with one commit of everything in `folder` there. `entries` is how many files that has to be.

    Raises:
        SourceError: git does not take in a file of R.
        WorkspaceError: ours.
    """
    git_dir = folder / ".git"
    git.must(git_dir, "init", "-q", "--template=", "--initial-branch=main", work_tree=folder)
    with ours("the repository of a snapshot cannot be written"):
        (git_dir / "info").mkdir(exist_ok=True)
        (git_dir / "info" / "attributes").write_text(_RAW, encoding="utf-8")
    git.must(git_dir, "add", "-A", "-f", "--", ".", error=SourceError, work_tree=folder, extra=_STRAIGHT_INTO_A_PACK)
    known = git.must(git_dir, "ls-files", "-z", work_tree=folder).count(b"\0")
    if known != entries:
        raise SourceError(f"R has {entries} files, but git takes in {known} of them")
    tree = git.must(git_dir, "write-tree").decode().strip()
    commit = git.must(git_dir, "commit-tree", "-m", "Snapshot", tree, extra=_IDENTITY).decode().strip()
    git.must(git_dir, "update-ref", "refs/heads/main", commit)
    git.must(git_dir, "repack", "-a", "-d", "-q", extra=_STRAIGHT_INTO_A_PACK)
    with ours("the repository of a snapshot cannot be written"):
        _strip(git_dir)
        (git_dir / "config").write_text(_AGENT_CONFIG, encoding="utf-8")
        open_up(git_dir)


def _strip(git_dir: Path) -> None:
    """Leave only what a repository needs."""
    for item in git_dir.iterdir():
        if item.name not in _KEPT:
            if item.is_dir() and not item.is_symlink():
                remove(item)
            else:
                item.unlink()
    for extra in ("info", "pack"):
        for item in (git_dir / "objects" / extra).glob("*"):
            if item.suffix not in {".pack", ".idx"}:
                item.unlink()
