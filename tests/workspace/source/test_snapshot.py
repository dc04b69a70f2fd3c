"""Snapshots are created once and completely, are reproducible, and are reused only while they are intact."""

from __future__ import annotations

import os
import shutil
import stat
import threading
from pathlib import Path

import pytest

from agentbench.contract.lock import LockedSource
from agentbench.core.errors import SourceError, WorkspaceError
from agentbench.tree.entry import tree_digest
from agentbench.tree.folder import FolderTree
from agentbench.workspace.source import agent_repository as repository
from agentbench.workspace.source import store
from agentbench.workspace.source.materialize import SourceLimits
from agentbench.workspace.source.snapshot import Snapshot, Snapshots
from tests.workspace import child
from tests.workspace.reference_git import commit_all, git
from tests.workspace.reference_git import repository as make_repository
from tests.workspace.tasks import files, make_lock, objects, snapshots, task

pytestmark = [pytest.mark.req("C-03c"), pytest.mark.component]


@pytest.fixture
def source(tmp_path: Path) -> Path:
    folder = tmp_path / "source"
    (folder / "pkg").mkdir(parents=True)
    (folder / "pkg/mod.py").write_bytes(b"x = 1\n")
    (folder / "run.sh").write_bytes(b"#!/bin/sh\n")
    (folder / "run.sh").chmod(0o700)
    (folder / "secret").write_bytes(b"s\n")
    (folder / "secret").chmod(0o600)
    (folder / "link").symlink_to("pkg/mod.py")
    return folder


def materialize(tmp_path: Path) -> Snapshot:
    return snapshots(tmp_path).materialize(task(tmp_path / "task", path="../source"))


class TestFolder:
    def test_folder_keeps_content_modes_and_links(self, tmp_path: Path, source: Path) -> None:
        snapshot = materialize(tmp_path)
        assert files(snapshot) == {
            "pkg/mod.py": b"x = 1\n", "run.sh": b"#!/bin/sh\n", "secret": b"s\n", "link": b"-> pkg/mod.py",
        }  # fmt: skip
        modes = {
            name: stat.S_IMODE((snapshot.folder / name).stat().st_mode) for name in ("", "pkg", "run.sh", "secret")
        }
        assert modes == {"": 0o755, "pkg": 0o755, "run.sh": 0o755, "secret": 0o644}
        assert snapshot.source == {"kind": "folder", "path": "../source"}
        with FolderTree.at(snapshot.folder) as tree:
            assert tree_digest(tree.entries()) == snapshot.digest

    def test_python_caches_are_left_out(self, tmp_path: Path, source: Path) -> None:
        before = materialize(tmp_path)
        (source / "pkg/__pycache__").mkdir()
        (source / "pkg/__pycache__/mod.cpython-311.pyc").write_bytes(b"compiled when the package was installed")
        assert materialize(tmp_path).digest == before.digest
        assert "pkg/__pycache__/mod.cpython-311.pyc" not in files(materialize(tmp_path))

    def test_ignore_rules_have_no_effect(self, tmp_path: Path, source: Path) -> None:
        (source / ".gitignore").write_text("*\n")
        (source / "pkg/.gitignore").write_text("mod.py\n")
        snapshot = materialize(tmp_path)
        assert "pkg/mod.py" in files(snapshot)
        assert b"pkg/mod.py\n" in git(snapshot.folder, "ls-files")

    def test_every_git_folder_is_left_out(self, tmp_path: Path, source: Path) -> None:
        make_repository(source)
        commit_all(source)
        make_repository(source / "nested")
        (source / "nested/f").write_text("f")
        (source / "pkg/.git").write_text("gitdir: /etc\n")
        snapshot = materialize(tmp_path)
        assert sorted(files(snapshot)) == ["link", "nested/f", "pkg/mod.py", "run.sh", "secret"]
        assert list(snapshot.folder.rglob(".git")) == [snapshot.folder / ".git"]

    def test_changed_folder_gives_another_snapshot(self, tmp_path: Path, source: Path) -> None:
        first = materialize(tmp_path)
        (source / "pkg/mod.py").write_bytes(b"x = 2\n")
        second = materialize(tmp_path)
        assert first.digest != second.digest
        assert files(first)["pkg/mod.py"] == b"x = 1\n"
        assert files(second)["pkg/mod.py"] == b"x = 2\n"
        (source / "pkg/mod.py").write_bytes(b"x = 1\n")
        assert materialize(tmp_path).folder == first.folder

    def test_subdir_of_a_folder(self, tmp_path: Path, source: Path) -> None:
        snapshot = snapshots(tmp_path).materialize(task(tmp_path / "task", path="../source", subdir="pkg"))
        assert files(snapshot) == {"mod.py": b"x = 1\n"}

    def test_names_with_arbitrary_bytes(self, tmp_path: Path, source: Path) -> None:
        (source / os.fsdecode(b"\xff\xfe -rf\n")).write_bytes(b"odd\n")
        snapshot = materialize(tmp_path)
        assert (snapshot.folder / os.fsdecode(b"\xff\xfe -rf\n")).read_bytes() == b"odd\n"
        assert git(snapshot.folder, "status", "--porcelain") == b""

    def test_special_files_are_rejected(self, tmp_path: Path, source: Path) -> None:
        os.mkfifo(source / "fifo")
        with pytest.raises(SourceError, match="fifo: is neither a file nor a symlink"):
            materialize(tmp_path)

    def test_deep_paths_are_rejected_and_removed(self, tmp_path: Path, source: Path) -> None:
        fd = os.open(source, os.O_RDONLY)
        for _ in range(1500):
            os.mkdir("d", dir_fd=fd)
            below = os.open("d", os.O_RDONLY, dir_fd=fd)
            os.close(fd)
            fd = below
        os.close(os.open("f", os.O_CREAT | os.O_WRONLY, dir_fd=fd))
        os.close(fd)
        with pytest.raises(SourceError, match="deeper than"):
            materialize(tmp_path)
        store.remove_tree(source)
        assert not source.exists()

    def test_folder_beyond_the_limits_is_rejected(self, tmp_path: Path, source: Path) -> None:
        small = Snapshots(tmp_path / "cache", limits=SourceLimits(entries=2))
        with pytest.raises(SourceError, match="too large"):
            small.materialize(task(tmp_path / "task", path="../source"))

    def test_missing_folder_is_a_source_error(self, tmp_path: Path, source: Path) -> None:
        loaded = task(tmp_path / "task", path="../source")
        shutil.rmtree(source)
        with pytest.raises(SourceError, match="cannot read the base repository"):
            snapshots(tmp_path).materialize(loaded)


def test_task_without_repository_gets_an_empty_folder(tmp_path: Path) -> None:
    snapshot = snapshots(tmp_path).materialize(task(tmp_path / "task"))
    assert list(snapshot.folder.iterdir()) == []
    assert snapshot.source == {"kind": "none"}


class TestRepository:
    """The repository that the agent sees has one commit and nothing else."""

    def test_one_commit_with_all_files_and_clean_status(self, tmp_path: Path, source: Path) -> None:
        folder = materialize(tmp_path).folder
        assert git(folder, "rev-list", "--all", "--count") == b"1\n"
        assert git(folder, "status", "--porcelain", "--ignored") == b""
        assert git(folder, "ls-files", "-s").count(b"\n") == 4
        assert git(folder, "symbolic-ref", "HEAD") == b"refs/heads/main\n"
        git(folder, "fsck", "--strict")

    def test_no_other_objects_refs_remotes_logs_or_hooks(self, tmp_path: Path, source: Path) -> None:
        folder = materialize(tmp_path).folder
        reachable = set(git(folder, "rev-list", "--objects", "--no-object-names", "--all").decode().split())
        assert set(objects(folder)) == reachable
        assert git(folder, "for-each-ref", "--format=%(refname)") == b"refs/heads/main\n"
        assert git(folder, "remote") == b""
        assert sorted(path.name for path in (folder / ".git").iterdir()) == [
            "HEAD",
            "config",
            "index",
            "objects",
            "refs",
        ]

    def test_same_content_gives_the_same_commit(self, tmp_path: Path, source: Path) -> None:
        first = git(materialize(tmp_path).folder, "rev-parse", "HEAD")
        other = tmp_path / "elsewhere"
        shutil.copytree(source, other / "source", symlinks=True)
        assert git(materialize(other).folder, "rev-parse", "HEAD") == first

    def test_agent_can_commit(self, tmp_path: Path, source: Path) -> None:
        copy = tmp_path / "copy"
        shutil.copytree(materialize(tmp_path).folder, copy, symlinks=True)
        (copy / "new").write_text("x")
        environment = {"GIT_AUTHOR_NAME", "GIT_AUTHOR_EMAIL", "GIT_COMMITTER_NAME", "GIT_COMMITTER_EMAIL"}
        git(copy, "add", "new")
        git(copy, "commit", "-qm", "x", without=environment)
        assert git(copy, "log", "-1", "--format=%an") == b"agent\n"

    def test_gitattributes_do_not_change_committed_content(self, tmp_path: Path, source: Path) -> None:
        (source / ".gitattributes").write_text(
            "* text eol=crlf ident filter=evil diff=evil working-tree-encoding=UTF-16\n"
        )
        (source / "crlf").write_bytes(b"a\r\nb\r\n$Id$\n")
        snapshot = materialize(tmp_path)
        assert git(snapshot.folder, "cat-file", "blob", "HEAD:crlf") == b"a\r\nb\r\n$Id$\n"
        assert files(snapshot)["crlf"] == b"a\r\nb\r\n$Id$\n"

    def test_nested_bare_repository_is_plain_files(self, tmp_path: Path, source: Path) -> None:
        git(tmp_path, "init", "-q", "--bare", str(source / "bare"))
        (source / "bare/config").write_text(f"[core]\n\tbare = true\n\tfsmonitor = touch {tmp_path}/pwned\n")
        snapshot = materialize(tmp_path)
        assert "bare/HEAD" in files(snapshot)
        assert not (tmp_path / "pwned").exists()


DIE_WHILE_BUILDING = """
import os, sys
from pathlib import Path
import agentbench.workspace.source.snapshot
from tests.workspace.source.test_snapshot import materialize
agentbench.workspace.source.snapshot.make_readable = lambda folder: os._exit(9)
materialize(Path(sys.argv[1]))
"""

HOLD_A_LOCK = """
import sys, time
from pathlib import Path
from agentbench.workspace.source.store import Store
with Store(Path(sys.argv[1])).lock("x"):
    print("held", flush=True)
    time.sleep(100)
"""


class TestCache:
    def test_cached_snapshot_is_reused(self, tmp_path: Path, source: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        first = materialize(tmp_path)

        def never(*arguments: object) -> None:
            raise AssertionError(arguments)

        monkeypatch.setattr("agentbench.workspace.source.snapshot.create_repository", never)
        assert materialize(tmp_path) == first

    @pytest.mark.parametrize(
        "damage",
        [
            lambda folder: (folder / "pkg/mod.py").write_bytes(b"x = 666\n"),
            lambda folder: (folder / "pkg/mod.py").unlink(),
            lambda folder: (folder / "conftest.py").write_bytes(b""),
            lambda folder: (folder / "run.sh").chmod(0o644),
            lambda folder: (folder / ".git/HEAD").write_text("ref: refs/heads/other\n"),
            lambda folder: shutil.rmtree(folder / ".git"),
            shutil.rmtree,
            lambda folder: (folder.parent / "seal.json").unlink(),
            lambda folder: (folder.parent / "seal.json").write_text("{half"),
        ],
        ids=["edited", "removed", "added", "mode", "git", "no git", "no tree", "no seal", "half a seal"],
    )  # fmt: skip
    def test_damaged_snapshot_is_rebuilt(self, tmp_path: Path, source: Path, damage: object) -> None:
        first = materialize(tmp_path)
        expected = files(first)
        assert callable(damage)
        damage(first.folder)
        again = materialize(tmp_path)
        assert (again.digest, files(again)) == (first.digest, expected)
        assert git(again.folder, "status", "--porcelain") == b""
        assert list((tmp_path / "cache/scratch").iterdir()) == []

    def test_snapshot_pruned_while_in_use_is_rebuilt(self, tmp_path: Path, source: Path) -> None:
        running = snapshots(tmp_path)
        loaded = task(tmp_path / "task", path="../source")
        first = running.materialize(loaded)
        shutil.rmtree(tmp_path / "cache/snapshots")
        assert running.materialize(loaded) == first
        assert "run.sh" in files(first)

    def test_damaged_source_record_is_rebuilt(self, tmp_path: Path, source: Path) -> None:
        first = materialize(tmp_path)
        for record in (tmp_path / "cache/sources").iterdir():
            record.write_text("[1, 2")
        assert materialize(tmp_path) == first

    def test_threads_and_instances_share_one_snapshot(self, tmp_path: Path, source: Path) -> None:
        loaded = task(tmp_path / "task", path="../source")
        results: list[Snapshot] = []
        shared = snapshots(tmp_path)
        caches = [shared, shared, snapshots(tmp_path), snapshots(tmp_path)]
        threads = [
            threading.Thread(target=lambda cache=cache: results.append(cache.materialize(loaded))) for cache in caches
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(results) == 4
        assert len(set(map(str, results))) == 1
        assert len(list((tmp_path / "cache/snapshots").iterdir())) == 1

    def test_killed_build_leaves_no_partial_snapshot(self, tmp_path: Path, source: Path) -> None:
        code, _ = child.run(DIE_WHILE_BUILDING, tmp_path)
        assert code == 9
        (left,) = (tmp_path / "cache/scratch").iterdir()
        assert not (tmp_path / "cache/snapshots").exists()
        os.utime(left, (0, 0))
        assert files(materialize(tmp_path))
        assert list((tmp_path / "cache/scratch").iterdir()) == []

    def test_scratch_folder_of_a_running_process_is_kept(self, tmp_path: Path) -> None:
        first, second = store.Store(tmp_path / "cache"), store.Store(tmp_path / "cache")
        with first.scratch() as busy:
            os.utime(busy, (0, 0))
            with second.scratch():
                assert busy.is_dir()
        assert not busy.exists()

    def test_snapshot_is_readable_by_other_users_with_any_umask(self, tmp_path: Path, source: Path) -> None:
        before = os.umask(0o077)
        try:
            folder = materialize(tmp_path).folder
        finally:
            os.umask(before)
        for path in (folder, *folder.rglob("*"), *folder.parents):
            if path == tmp_path:
                break
            if not path.is_symlink():
                assert path.stat().st_mode & (0o555 if path.is_dir() else 0o444) == (
                    0o555 if path.is_dir() else 0o444
                ), path

    def test_unusable_cache_is_a_workspace_error(self, tmp_path: Path) -> None:
        (tmp_path / "file").write_text("x")
        with pytest.raises(WorkspaceError, match="cannot use the cache") as caught:
            Snapshots(tmp_path / "file" / "cache")
        assert "writable" in caught.value.remedy

    def test_full_disk_is_a_workspace_error_and_leaves_nothing(
        self, tmp_path: Path, source: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def full(*arguments: object) -> None:
            raise OSError(28, "No space left on device", "somewhere")

        monkeypatch.setattr(repository, "make_readable", full)
        with pytest.raises(WorkspaceError, match="No space left") as caught:
            materialize(tmp_path)
        assert "free disk space" in caught.value.remedy
        monkeypatch.undo()
        assert list((tmp_path / "cache/scratch").iterdir()) == []
        assert files(materialize(tmp_path))

    def test_lock_is_released_when_its_holder_dies(self, tmp_path: Path) -> None:
        with child.start(HOLD_A_LOCK, tmp_path / "cache") as holder:
            assert holder.stdout is not None
            assert holder.stdout.readline() == b"held\n"
            holder.kill()
        with store.Store(tmp_path / "cache").lock("x"):
            pass


class TestLock:
    def test_base_repository_must_match_the_lock(self, tmp_path: Path, source: Path) -> None:
        loaded = task(tmp_path / "task", path="../source")
        snapshot = snapshots(tmp_path).materialize(loaded)
        lock = make_lock(LockedSource(digest=snapshot.digest))
        assert snapshots(tmp_path).materialize(loaded.with_lock(lock)) == snapshot
        (source / "run.sh").write_text("changed")
        with pytest.raises(SourceError, match="differs from the lock"):
            snapshots(tmp_path).materialize(loaded.with_lock(lock))
