"""Small tasks on disk for tests that need a base repository."""

from __future__ import annotations

import json
from pathlib import Path

from agentbench.contract.load import LoadedTask, load_task
from agentbench.contract.lock import Identities, Lock, LockedSource
from agentbench.workspace.source.snapshot import Snapshot, Snapshots
from tests.workspace.reference_git import git


def task(folder: Path, **repo: object) -> LoadedTask:
    """Write and load a task in `folder` with these keys of `repo`. Without keys the task has `repo: none`."""
    folder.mkdir(parents=True, exist_ok=True)
    validation = 'validation: {failing_command: "false", passing_command: "true"}\n' if repo else ""
    source = json.dumps(repo) if repo else "none"
    (folder / "task.yaml").write_text(f"id: t\nsuite: s\nstatement: x\nrepo: {source}\n{validation}")
    return load_task(folder)


def files(snapshot: Snapshot) -> dict[str, bytes]:
    """Return the content of every file and the target of every symlink, without `.git`."""
    contents = {}
    for path in snapshot.folder.rglob("*"):
        name = path.relative_to(snapshot.folder).as_posix()
        if name == ".git" or name.startswith(".git/"):
            continue
        if path.is_symlink():
            contents[name] = b"-> " + str(path.readlink()).encode()
        elif path.is_file():
            contents[name] = path.read_bytes()
    return contents


def snapshots(tmp_path: Path) -> Snapshots:
    """Open the cache of the test as a new process would."""
    return Snapshots(tmp_path / "cache")


def objects(folder: Path) -> dict[str, str]:
    """Return the type of every object of a repository, reachable or not."""
    listed = git(folder, "-c", "safe.directory=*", "cat-file", "--batch-all-objects", "--batch-check")
    return {line.split()[0]: line.split()[1] for line in listed.decode().splitlines()}


def make_lock(source: LockedSource) -> Lock:
    empty = "sha256:" + "0" * 64
    ids = Identities(contract_id=empty, task_digest=empty, acceptance_id=empty, setup_key=empty, parts={})
    return Lock(task_id="t", ids=ids, source=source)
