"""Base repositories from git: pinned commits in mirrors that survive rewritten remotes and killed processes."""

from __future__ import annotations

import os
import shutil
import threading
from pathlib import Path

import pytest

from agentbench.contract.lock import LockedSource
from agentbench.core.errors import SourceError, WorkspaceError
from agentbench.core.package_settings import without_credentials
from agentbench.workspace.source.host_git import HostGit
from agentbench.workspace.source.location import require_repository, resolve_submodule_url, resolve_url
from agentbench.workspace.source.mirror import Mirrors
from agentbench.workspace.source.snapshot import Snapshot
from agentbench.workspace.source.store import Store
from tests.workspace import child
from tests.workspace.reference_git import commit_all, git, repository
from tests.workspace.tasks import files, make_lock, objects, snapshots, task

pytestmark = [pytest.mark.req("C-03a", "R-08"), pytest.mark.component]


@pytest.fixture
def origin(tmp_path: Path) -> Path:
    folder = repository(tmp_path / "origin")
    (folder / "f").write_bytes(b"one\n")
    (folder / "run").write_bytes(b"#!/bin/sh\n")
    (folder / "run").chmod(0o755)
    (folder / "link").symlink_to("f")
    commit_all(folder)
    return folder


def head(folder: Path) -> str:
    return git(folder, "rev-parse", "HEAD").decode().strip()


def materialize(tmp_path: Path, commit: str, url: str = "../origin", **more: object) -> Snapshot:
    return snapshots(tmp_path).materialize(task(tmp_path / "task", url=url, commit=commit, **more))


def edit(folder: Path, content: str) -> str:
    (folder / "f").write_text(content)
    return commit_all(folder)


class TestCommits:
    def test_content_comes_from_the_pinned_commit(self, tmp_path: Path, origin: Path) -> None:
        first = head(origin)
        edit(origin, "two\n")
        snapshot = materialize(tmp_path, first)
        assert files(snapshot) == {"f": b"one\n", "run": b"#!/bin/sh\n", "link": b"-> f"}
        assert os.access(snapshot.folder / "run", os.X_OK)
        assert snapshot.source == {"kind": "git", "url": "../origin", "requested": first, "commit": first}

    def test_missing_clone_is_fetched_from_its_origin(self, tmp_path: Path, origin: Path) -> None:
        url = origin.rename(tmp_path / "moved").as_uri()
        snapshot = materialize(tmp_path, head(tmp_path / "moved"), origin=url)
        assert files(snapshot)["f"] == b"one\n"
        assert snapshot.source["url"] == url

    def test_agent_repository_has_no_other_history(self, tmp_path: Path, origin: Path) -> None:
        edit(origin, "two\n")
        pinned = head(origin)
        edit(origin, "answer\n")
        git(origin, "tag", "-am", "x", "v1")
        snapshot = materialize(tmp_path, pinned)
        assert git(snapshot.folder, "rev-list", "--all", "--count") == b"1\n"
        contents = [git(snapshot.folder, "cat-file", "-p", name) for name, kind in objects(snapshot.folder).items()]
        assert b"two\n" in contents
        assert b"answer\n" not in contents
        assert b"one\n" not in contents
        assert pinned not in objects(snapshot.folder)

    def test_abbreviated_id_is_resolved_and_recorded(self, tmp_path: Path, origin: Path) -> None:
        snapshot = materialize(tmp_path, head(origin)[:8])
        assert snapshot.source["commit"] == head(origin)
        assert snapshot.source["requested"] == head(origin)[:8]

    def test_ambiguous_id_is_rejected(self, tmp_path: Path, origin: Path) -> None:
        by_prefix: dict[str, str] = {}
        commit = ""
        tree = git(origin, "rev-parse", "HEAD^{tree}").decode().strip()
        for number in range(20_000):
            commit = git(origin, "commit-tree", "-m", str(number), tree).decode().strip()
            if commit[:4] in by_prefix:
                break
            by_prefix[commit[:4]] = commit
        git(origin, "branch", "x", commit)
        git(origin, "branch", "y", by_prefix[commit[:4]])
        with pytest.raises(SourceError, match="is ambiguous"):
            materialize(tmp_path, commit[:4])

    @pytest.mark.parametrize("make", [("tag", "-am", "x"), ("tag",), ("branch",)], ids=["annotated", "light", "branch"])
    def test_tag_or_branch_is_resolved_and_recorded(self, tmp_path: Path, origin: Path, make: tuple[str, ...]) -> None:
        first = head(origin)
        git(origin, *make, "v1")
        snapshot = materialize(tmp_path, "v1")
        assert snapshot.source["commit"] == first
        edit(origin, "two\n")
        git(origin, *make, "-f", "v1")
        assert materialize(tmp_path, "v1").source["commit"] == head(origin)
        locked = task(tmp_path / "task", url="../origin", commit="v1").with_lock(make_lock(LockedSource(commit=first)))
        assert snapshots(tmp_path).materialize(locked).digest == snapshot.digest

    def test_later_commit_is_fetched(self, tmp_path: Path, origin: Path) -> None:
        materialize(tmp_path, head(origin))
        later = edit(origin, "two\n")
        assert files(materialize(tmp_path, later))["f"] == b"two\n"

    def test_commit_on_no_branch_is_fetched_by_id(self, tmp_path: Path, origin: Path) -> None:
        lost = edit(origin, "two\n")
        git(origin, "reset", "-q", "--hard", "HEAD~1")
        assert files(materialize(tmp_path, lost))["f"] == b"two\n"

    def test_pinned_commit_survives_a_rewritten_remote(self, tmp_path: Path, origin: Path) -> None:
        first = edit(origin, "two\n")
        materialize(tmp_path, first)
        git(origin, "reset", "-q", "--hard", "HEAD~1")
        other = edit(origin, "three\n")
        git(origin, "reflog", "expire", "--expire=now", "--all")
        git(origin, "gc", "-q", "--prune=now")
        materialize(tmp_path, other)
        shutil.rmtree(tmp_path / "cache/snapshots")
        assert files(materialize(tmp_path, first))["f"] == b"two\n"

    def test_branch_replaced_by_branches_below_its_name(self, tmp_path: Path, origin: Path) -> None:
        git(origin, "branch", "a")
        materialize(tmp_path, "a")
        git(origin, "branch", "-D", "a")
        later = edit(origin, "two\n")
        git(origin, "branch", "a/b")
        assert materialize(tmp_path, "a/b").source["commit"] == later

    def test_missing_commit_is_reported(self, tmp_path: Path, origin: Path) -> None:
        with pytest.raises(SourceError, match="has no commit " + "a" * 40) as caught:
            materialize(tmp_path, "a" * 40)
        assert "repo.commit" in caught.value.remedy
        with pytest.raises(SourceError, match="has no commit v9"):
            materialize(tmp_path, "v9")

    def test_unreachable_repository_is_reported_and_leaves_nothing(self, tmp_path: Path) -> None:
        (tmp_path / "origin").mkdir()
        with pytest.raises(SourceError, match="is not a git repository"):
            materialize(tmp_path, "a" * 40)
        with pytest.raises(SourceError, match="cannot fetch"):
            materialize(tmp_path, "a" * 40, url="http://127.0.0.1:9/x.git")
        assert not (tmp_path / "cache/mirrors").exists()
        assert list((tmp_path / "cache/scratch").iterdir()) == []

    def test_cached_snapshot_needs_no_remote(self, tmp_path: Path, origin: Path) -> None:
        first, name = head(origin), "main"
        snapshot, named = materialize(tmp_path, first), materialize(tmp_path, name)
        origin.rename(tmp_path / "away")
        origin.mkdir()
        assert materialize(tmp_path, first) == snapshot
        assert materialize(tmp_path, name) == named

    def test_subdir_of_a_repository(self, tmp_path: Path, origin: Path) -> None:
        (origin / "sub").mkdir()
        (origin / "sub/g").write_text("g\n")
        commit = commit_all(origin)
        assert files(materialize(tmp_path, commit, subdir="sub")) == {"g": b"g\n"}
        with pytest.raises(SourceError, match="no folder other"):
            materialize(tmp_path, commit, subdir="other")

    def test_gitattributes_do_not_change_checked_out_content(self, tmp_path: Path, origin: Path) -> None:
        (origin / "f").write_bytes(b"a\nb $Id$\n")
        git(origin, "add", "f")
        (origin / ".gitattributes").write_text("* text eol=crlf ident\nf export-ignore\n")
        git(origin, "-c", "core.autocrlf=false", "commit", "-qam", "x")
        git(origin, "add", ".gitattributes")
        git(origin, "commit", "-qm", "x")
        assert files(materialize(tmp_path, head(origin)))["f"] == b"a\nb $Id$\n"

    def test_lfs_pointers_are_counted(self, tmp_path: Path, origin: Path) -> None:
        pointer = f"version https://git-lfs.github.com/spec/v1\noid sha256:{'0' * 64}\nsize 12345\n"
        (origin / "big.bin").write_text(pointer)
        assert materialize(tmp_path, commit_all(origin)).source["lfs_pointers"] == "1"


MATERIALIZE = """
import sys
from pathlib import Path
from agentbench.contract.load import load_task
from tests.workspace.tasks import files, snapshots
folder = Path(sys.argv[1])
print(files(snapshots(folder).materialize(load_task(folder / "task")))["f"])
"""

DIE_WHILE_FETCHING = (
    """
import os
from agentbench.core.package_settings import without_credentials
from agentbench.workspace.source.host_git import HostGit
run = HostGit.run
def dying(self, git_dir, *arguments, **options):
    done = run(self, git_dir, *arguments, **options)
    if arguments[0] == "fetch":
        os._exit(9)
    return done
HostGit.run = dying
"""
    + MATERIALIZE
)


class TestMirror:
    def test_killed_clone_leaves_no_partial_mirror(self, tmp_path: Path, origin: Path) -> None:
        commit = head(origin)
        task(tmp_path / "task", url="../origin", commit=commit)
        code, _ = child.run(DIE_WHILE_FETCHING, tmp_path)
        assert code == 9
        assert not (tmp_path / "cache/mirrors").exists()
        assert files(materialize(tmp_path, commit))["f"] == b"one\n"

    def test_stale_git_locks_in_a_mirror_are_removed(self, tmp_path: Path, origin: Path) -> None:
        materialize(tmp_path, head(origin))
        (mirror,) = (tmp_path / "cache/mirrors").iterdir()
        for name in ("packed-refs.lock", "refs/heads/main.lock", "HEAD.lock", "objects/pack/tmp_pack_x"):
            (mirror / name).write_text("")
        later = edit(origin, "two\n")
        assert files(materialize(tmp_path, later))["f"] == b"two\n"
        assert not list(mirror.rglob("*.lock"))

    @pytest.mark.parametrize("damage", ["no objects", "no head", "empty"])
    def test_damaged_mirror_is_recreated(self, tmp_path: Path, origin: Path, damage: str) -> None:
        commit = head(origin)
        materialize(tmp_path, commit)
        (mirror,) = (tmp_path / "cache/mirrors").iterdir()
        if damage == "no objects":
            blob = git(origin, "rev-parse", "HEAD:f").decode().strip()
            git(mirror, "unpack-objects", "-q", stdin=b"", check=False)
            for pack in (mirror / "objects/pack").glob("*.pack"):
                data = pack.read_bytes()
                pack.unlink()
                pack.with_suffix(".idx").unlink()
                git(mirror, "unpack-objects", "-q", stdin=data)
            (mirror / "objects" / blob[:2] / blob[2:]).unlink()
        elif damage == "no head":
            (mirror / "HEAD").unlink()
        else:
            shutil.rmtree(mirror)
            mirror.mkdir()
        shutil.rmtree(tmp_path / "cache/snapshots")
        assert files(materialize(tmp_path, commit))["f"] == b"one\n"

    def test_threads_share_a_mirror(self, tmp_path: Path, origin: Path) -> None:
        commits = [head(origin), edit(origin, "two\n"), edit(origin, "three\n"), edit(origin, "four\n")]
        loaded = [
            task(tmp_path / f"task{number}", url="../origin", commit=commit) for number, commit in enumerate(commits)
        ]
        contents: dict[str, bytes] = {}

        def work(number: int) -> None:
            contents[commits[number]] = files(snapshots(tmp_path).materialize(loaded[number]))["f"]

        threads = [threading.Thread(target=work, args=(number,)) for number in (0, 1, 2, 3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert contents == dict(zip(commits, (b"one\n", b"two\n", b"three\n", b"four\n"), strict=True))
        assert len(list((tmp_path / "cache/mirrors").iterdir())) == 1

    def test_processes_share_a_mirror(self, tmp_path: Path, origin: Path) -> None:
        task(tmp_path / "task", url="../origin", commit=head(origin))
        children = [child.start(MATERIALIZE, tmp_path) for _ in range(3)]
        assert [process.communicate(timeout=600)[0] for process in children] == [b"b'one\\n'\n"] * 3
        assert [process.returncode for process in children] == [0, 0, 0]

    def test_full_disk_during_fetch_is_a_workspace_error(
        self, tmp_path: Path, origin: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        binary = tmp_path / "bin"
        binary.mkdir()
        (binary / "git").write_text(
            f'#!/bin/sh\ncase "$*" in *" fetch "*) echo "fatal: write error: No space left on device" >&2; exit 128;; esac\n'
            f'exec {shutil.which("git")} "$@"\n'
        )
        (binary / "git").chmod(0o755)
        monkeypatch.setenv("PATH", f"{binary}:{os.environ['PATH']}")
        with pytest.raises(WorkspaceError, match="No space left"):
            materialize(tmp_path, head(origin))


class TestSubmodules:
    @pytest.fixture
    def library(self, tmp_path: Path) -> Path:
        folder = repository(tmp_path / "library")
        (folder / "lib").write_text("lib one\n")
        commit_all(folder)
        return folder

    def add(self, folder: Path, path: str, url: str, revision: str) -> str:
        (folder / ".gitmodules").write_text(f'[submodule "x"]\n\tpath = {path}\n\turl = {url}\n')
        git(folder, "add", ".gitmodules")
        git(folder, "update-index", "--add", "--cacheinfo", f"160000,{revision},{path}")
        git(folder, "commit", "-qm", "x")
        return head(folder)

    def test_submodule_revision_comes_from_the_commit(self, tmp_path: Path, origin: Path, library: Path) -> None:
        revision = head(library)
        (library / "lib").write_text("lib two\n")
        commit_all(library)
        commit = self.add(origin, "deps/lib", "../library", revision)
        snapshot = materialize(tmp_path, commit)
        assert files(snapshot)["deps/lib/lib"] == b"lib one\n"
        assert snapshot.source["submodule:deps/lib"] == f"{revision} {library}"
        assert b"deps/lib/lib" in git(snapshot.folder, "ls-files")
        assert not (snapshot.folder / "deps/lib/.git").exists()

    def test_nested_submodules(self, tmp_path: Path, origin: Path, library: Path) -> None:
        inner = repository(tmp_path / "inner")
        (inner / "deep").write_text("deep\n")
        commit_all(inner)
        middle = self.add(library, "inner", "../inner", head(inner))
        snapshot = materialize(tmp_path, self.add(origin, "lib", str(library), middle))
        assert files(snapshot)["lib/inner/deep"] == b"deep\n"
        assert "submodule:lib/inner" in snapshot.source

    def test_submodules_can_be_disabled(self, tmp_path: Path, origin: Path, library: Path) -> None:
        commit = self.add(origin, "lib", "../library", head(library))
        assert "lib/lib" not in files(materialize(tmp_path, commit, submodules=False))

    def test_missing_revision_is_reported(self, tmp_path: Path, origin: Path, library: Path) -> None:
        commit = self.add(origin, "lib", "../library", "b" * 40)
        with pytest.raises(SourceError, match="no commit " + "b" * 40):
            materialize(tmp_path, commit)

    def test_submodule_without_url_is_left_empty_and_recorded(self, tmp_path: Path, origin: Path) -> None:
        git(origin, "update-index", "--add", "--cacheinfo", f"160000,{'b' * 40},lib")
        git(origin, "commit", "-qm", "x")
        assert "no url" in materialize(tmp_path, head(origin)).source["submodule:lib"]

    @pytest.mark.parametrize(
        "url", ["ext::sh -c touch% pwned", "-u./pwn", "--upload-pack=touch pwned", "fd::17", "relative"]
    )
    def test_submodule_urls_with_commands_are_rejected(self, tmp_path: Path, origin: Path, url: str) -> None:
        commit = self.add(origin, "lib", url, "b" * 40)
        with pytest.raises(SourceError):
            materialize(tmp_path, commit)
        assert not list(tmp_path.rglob("pwned"))

    def test_self_referencing_submodule_is_rejected(self, tmp_path: Path, origin: Path) -> None:
        self.add(origin, "me", "../origin", head(origin))
        again = head(origin)
        for _ in range(12):
            again = self.add(origin, "me", "../origin", again)
        with pytest.raises(SourceError, match="levels of submodules"):
            materialize(tmp_path, again)


class TestUrls:
    @pytest.mark.parametrize(
        "url", ["ext::sh -c id", "fd::3", "ftp://host/x", "-x", "gopher://x", "EXT::id", "a\nb", "javascript://x"]
    )
    def test_transports_that_run_commands_are_rejected(self, tmp_path: Path, url: str) -> None:
        with pytest.raises(SourceError):
            resolve_url(url, tmp_path)

    def test_relative_paths_are_resolved_against_the_task(self, tmp_path: Path) -> None:
        assert resolve_url("../repo.git", tmp_path / "task") == str(tmp_path / "repo.git")
        assert resolve_url("https://h/x.git", tmp_path) == "https://h/x.git"
        assert resolve_url("git@host:me/x.git", tmp_path) == "git@host:me/x.git"

    @pytest.mark.parametrize(
        "parent,url,expected",
        [
            ("https://h/a/b.git", "../c.git", "https://h/a/c.git"),
            ("https://h/a/b.git/", "../../c.git", "https://h/c.git"),
            ("https://h/a/b.git", "./c.git", "https://h/a/b.git/c.git"),
            ("git@h:a/b.git", "../c.git", "git@h:a/c.git"),
            ("/srv/a/b", "../c", "/srv/a/c"),
            ("https://h/a/b.git", "https://other/c", "https://other/c"),
        ],
    )
    def test_relative_submodule_urls(self, parent: str, url: str, expected: str) -> None:
        assert resolve_submodule_url(parent, url) == expected

    @pytest.mark.parametrize("url", ["/etc", "file:///etc", "../../../../etc"])
    def test_remote_repository_cannot_use_local_submodules(self, url: str) -> None:
        with pytest.raises(SourceError):
            resolve_submodule_url("https://h/a/b.git", url)

    def test_credentials_are_removed_for_display(self) -> None:
        assert without_credentials("https://user:token@host/x.git") == "https://host/x.git"


class TestHostileOrigin:
    """Nothing in a repository is executed on the host."""

    def test_hooks_and_configured_commands_of_the_origin_do_not_run(self, tmp_path: Path, origin: Path) -> None:
        pwn = f"touch {tmp_path}/pwned"
        (origin / ".gitattributes").write_text("* filter=evil diff=evil merge=evil\n")
        commit = commit_all(origin)
        for section, key in (
            ("filter.evil", "clean"), ("filter.evil", "smudge"), ("filter.evil", "process"), ("diff.evil", "textconv"),
            ("diff.evil", "command"), ("core", "fsmonitor"), ("core", "sshCommand"), ("core", "pager"), ("core", "editor"),
            ("core", "gitProxy"), ("core", "alternateRefsCommand"), ("uploadpack", "packObjectsHook"), ("core", "askPass"),
        ):  # fmt: skip
            git(origin, "config", f"{section}.{key}", pwn)
        for hook in (
            "post-checkout",
            "pre-commit",
            "reference-transaction",
            "post-index-change",
            "pre-receive",
            "update",
        ):
            path = origin / ".git/hooks" / hook
            path.parent.mkdir(exist_ok=True)
            path.write_text(f"#!/bin/sh\n{pwn}\n")
            path.chmod(0o755)
        git(origin, "config", "core.hooksPath", str(origin / ".git/hooks"))
        assert files(materialize(tmp_path, commit))["f"] == b"one\n"
        assert not (tmp_path / "pwned").exists()

    def test_git_configuration_of_the_user_is_ignored(
        self, tmp_path: Path, origin: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        template = tmp_path / "template/hooks"
        template.mkdir(parents=True)
        (template / "reference-transaction").write_text(f"#!/bin/sh\ntouch {tmp_path}/pwned\n")
        (template / "reference-transaction").chmod(0o755)
        config = tmp_path / "gitconfig"
        config.write_text(
            f"[init]\n\ttemplateDir = {tmp_path}/template\n[core]\n\tfsmonitor = touch {tmp_path}/pwned\n"
            '[url "file:///nowhere"]\n\tinsteadOf = /\n'
        )
        for name, value in {
            "GIT_CONFIG_GLOBAL": str(config), "GIT_TEMPLATE_DIR": str(tmp_path / "template"), "GIT_DIR": "/nowhere",
            "GIT_CONFIG_COUNT": "1", "GIT_CONFIG_KEY_0": "core.fsmonitor", "GIT_CONFIG_VALUE_0": f"touch {tmp_path}/pwned",
            "GIT_EXTERNAL_DIFF": f"touch {tmp_path}/pwned", "GIT_INDEX_FILE": "/nowhere", "HOME": str(tmp_path),
        }.items():  # fmt: skip
            monkeypatch.setenv(name, value)
        monkeypatch.setattr("tests.workspace.reference_git.ENV", {**os.environ, "PATH": os.environ["PATH"]})
        loaded = task(tmp_path / "task", url="../origin", commit="main")
        assert files(snapshots(tmp_path).materialize(loaded))["f"] == b"one\n"
        assert not (tmp_path / "pwned").exists()

    def test_mirror_is_not_writable_by_others(self, tmp_path: Path, origin: Path) -> None:
        materialize(tmp_path, head(origin))
        for path in (tmp_path / "cache").rglob("*"):
            if not path.is_symlink():
                assert not path.stat().st_mode & 0o022, path

    def test_commit_with_a_git_folder_is_rejected(self, tmp_path: Path, origin: Path) -> None:
        blob = git(origin, "hash-object", "-w", "--stdin", stdin=b"#!/bin/sh\n").decode().strip()
        inner = git(origin, "mktree", stdin=f"100755 blob {blob}\tpost-checkout\n".encode()).decode().strip()
        tree = git(origin, "mktree", stdin=f"040000 tree {inner}\t.git\n".encode()).decode().strip()
        commit = git(origin, "commit-tree", "-m", "x", tree).decode().strip()
        git(origin, "branch", "evil", commit)
        with pytest.raises(SourceError, match="cannot be checked out"):
            materialize(tmp_path, commit)

    def test_mirror_has_no_hooks_and_no_remote(self, tmp_path: Path, origin: Path) -> None:
        store = Store(tmp_path / "cache")
        mirrors = Mirrors(store, HostGit(store.folder("git")))
        with mirrors.open(str(origin)) as mirror:
            assert mirror.git_dir.is_relative_to(tmp_path / "cache")
            assert not (mirror.git_dir / "hooks").exists()
            assert not git(mirror.git_dir, "config", "--get-regexp", "remote.*", check=False)


def test_local_paths_without_a_repository_are_explained(tmp_path: Path, origin: Path) -> None:
    for folder in (origin / "sub", tmp_path / "plain"):
        folder.mkdir()
    for path, problem in (
        (tmp_path / "nowhere", "does not exist"),
        (tmp_path / "plain", "is not a git repository"),
        (origin / "f", "is not a git repository"),
        (origin / "sub", f"is a folder in the repository {origin}"),
    ):
        with pytest.raises(SourceError) as raised:
            require_repository(str(path))
        assert raised.value.message == f"{path} {problem}"
    require_repository(str(origin))
    require_repository("https://example.org/a.git")
