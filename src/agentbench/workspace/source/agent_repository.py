"""Creates the `.git` folder that the agent sees: a single commit of the base repository, without any history."""

from __future__ import annotations

from pathlib import Path

from agentbench.core.errors import SourceError
from agentbench.workspace.source.host_git import HostGit
from agentbench.workspace.source.store import as_workspace_error, make_readable, remove_tree

_RAW = "* -text -eol -ident -filter -working-tree-encoding -merge -diff\n"
"""Files are committed byte for byte, whatever attributes the base repository declares."""

_IDENTITY = {
    f"GIT_{role}_{key}": value
    for role in ("AUTHOR", "COMMITTER")
    for key, value in (("NAME", "snapshot"), ("EMAIL", "snapshot@localhost"), ("DATE", "2000-01-01T00:00:00+0000"))
}
"""Fixed values, so that the same content gives the same commit everywhere."""

_WRITE_PACK = {
    "GIT_CONFIG_COUNT": "2",
    "GIT_CONFIG_KEY_0": "core.bigFileThreshold",
    "GIT_CONFIG_VALUE_0": "1",
    "GIT_CONFIG_KEY_1": "core.compression",
    "GIT_CONFIG_VALUE_1": "1",
}
"""Write objects directly into a pack. This is three times as fast as loose objects that are packed afterwards."""

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


def create_repository(git: HostGit, folder: Path, entries: int) -> None:
    """Create a `.git` in `folder` with one commit of everything in it, which must be `entries` files.

    Raises:
        SourceError: git does not accept a file of the base repository.
        WorkspaceError: the harness failed.
    """
    git_dir = folder / ".git"
    git.run_checked(git_dir, "init", "-q", "--template=", "--initial-branch=main", work_tree=folder)
    with as_workspace_error("cannot write the repository of a snapshot"):
        (git_dir / "info").mkdir(exist_ok=True)
        (git_dir / "info" / "attributes").write_text(_RAW, encoding="utf-8")
    git.run_checked(git_dir, "add", "-A", "-f", "--", ".", error=SourceError, work_tree=folder, env=_WRITE_PACK)
    tracked = git.run_checked(git_dir, "ls-files", "-z", work_tree=folder).count(b"\0")
    if tracked != entries:
        raise SourceError(f"git tracks {tracked} files, but the base repository has {entries}")
    tree = git.run_checked(git_dir, "write-tree").decode().strip()
    commit = git.run_checked(git_dir, "commit-tree", "-m", "Snapshot", tree, env=_IDENTITY).decode().strip()
    git.run_checked(git_dir, "update-ref", "refs/heads/main", commit)
    git.run_checked(git_dir, "repack", "-a", "-d", "-q", env=_WRITE_PACK)
    with as_workspace_error("cannot write the repository of a snapshot"):
        _remove_unneeded(git_dir)
        (git_dir / "config").write_text(_AGENT_CONFIG, encoding="utf-8")
        make_readable(git_dir)


def _remove_unneeded(git_dir: Path) -> None:
    """Remove everything that a repository does not need."""
    for item in git_dir.iterdir():
        if item.name not in _KEPT:
            if item.is_dir() and not item.is_symlink():
                remove_tree(item)
            else:
                item.unlink()
    for name in ("info", "pack"):
        for item in (git_dir / "objects" / name).glob("*"):
            if item.suffix not in {".pack", ".idx"}:
                item.unlink()
