"""Small tasks on disk, for tests that need R."""

from __future__ import annotations

import json
from pathlib import Path

from agentbench.contract.load import LoadedTask, load_task
from agentbench.contract.lock import Lock, LockedIds, LockedSource
from agentbench.workspace.source.snapshot import Snapshot, Snapshots
from tests.workspace.reference_git import git


def task(folder: Path, **repo: object) -> LoadedTask:
    """A task in `folder` with this `repo` (none of it: `repo: none`)."""
    folder.mkdir(parents=True, exist_ok=True)
    checked = 'validation: {failing_command: "false", passing_command: "true"}\n' if repo else ""
    source = json.dumps(repo) if repo else "none"
    (folder / "task.yaml").write_text(f"id: t\nsuite: s\nstatement: x\nrepo: {source}\n{checked}")
    return load_task(folder)


def files(snapshot: Snapshot) -> dict[str, bytes]:
    """Content of every file and target of every symlink, without `.git`."""
    found = {}
    for path in snapshot.folder.rglob("*"):
        name = path.relative_to(snapshot.folder).as_posix()
        if name == ".git" or name.startswith(".git/"):
            continue
        if path.is_symlink():
            found[name] = b"-> " + str(path.readlink()).encode()
        elif path.is_file():
            found[name] = path.read_bytes()
    return found


def snapshots(tmp_path: Path) -> Snapshots:
    """As a new process would have them, on the same cache."""
    return Snapshots(tmp_path / "cache")


def objects(folder: Path) -> dict[str, str]:
    """Every object of a repository and its type, reachable or not."""
    listed = git(folder, "-c", "safe.directory=*", "cat-file", "--batch-all-objects", "--batch-check")
    return {line.split()[0]: line.split()[1] for line in listed.decode().splitlines()}


def make_lock(source: LockedSource) -> Lock:
    nothing = "sha256:" + "0" * 64
    ids = LockedIds(contract_id=nothing, task_digest=nothing, acceptance_id=nothing, setup_key=nothing, parts={})
    return Lock(task_id="t", ids=ids, source=source)
