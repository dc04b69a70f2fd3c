"""The extracted patch turns one tree into the other, and no change can be hidden from it."""

from __future__ import annotations

import os
import socket
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest
from hypothesis import HealthCheck, assume, example, given, settings
from hypothesis import strategies as st

from agentbench.core.errors import PatchInvalid, TaskError, WorkspaceError
from agentbench.tree.entry import Entry, FileWrite, Kind
from agentbench.tree.folder import FolderTree
from agentbench.tree.limits import TreeLimits
from agentbench.tree.memory import MemoryTree
from agentbench.workspace.diff.apply import plan_writes
from agentbench.workspace.diff.compare import compare
from agentbench.workspace.diff.extract import ExtractLimits, extract
from agentbench.workspace.diff.file_patch import changed_paths
from agentbench.workspace.diff.parse import parse
from agentbench.workspace.diff.paths import path_problem, target_problem
from tests.workspace.reference_git import commit_all, git, repository

pytestmark = [pytest.mark.req("E-05a"), pytest.mark.component]

Files = Mapping[bytes, bytes | FileWrite]
NUMBERS = b"".join(b"line %d\n" % number for number in range(60))

PARTS = st.one_of(
    st.sampled_from([b"a", b"b", b"a.b", b"d", b"x y", b" lead", b"tab\t", b'q"uote', b"back\\slash", b"n\nl", b"-rf", b"\xff\xfe"]),
    st.binary(min_size=1, max_size=6).filter(lambda part: not {0, 47} & set(part)),
)  # fmt: skip
PATHS = st.lists(PARTS, min_size=1, max_size=3).map(b"/".join).filter(lambda path: path_problem(path) is None)
LINES = st.sampled_from(
    [
        b"a\n",
        b"b\n",
        b"\n",
        b" \n",
        b"c\r\n",
        b"-- \n",
        b"+++ x\n",
        b"--- y\n",
        b"\\ No\n",
        b"@@ -1 +1 @@\n",
        b"diff --git a/x b/x\n",
        b"\xff\n",
    ]
)
CONTENTS = st.one_of(
    st.lists(LINES, max_size=12).map(b"".join),
    st.lists(LINES, max_size=5).map(lambda lines: b"".join(lines) + b"end"),
    st.sampled_from([NUMBERS, NUMBERS.replace(b"line 30\n", b"changed\n"), NUMBERS + b"more\n", NUMBERS[:-1]]),
    st.binary(max_size=60),
    st.just(bytes(range(256)) * 4),
)  # fmt: skip


@st.composite
def trees(draw: st.DrawFn, seed: Files | None = None) -> dict[bytes, FileWrite]:
    files: dict[bytes, FileWrite] = {}
    for path, value in (seed or {}).items():
        if draw(st.booleans()):
            files[path] = value if isinstance(value, FileWrite) else FileWrite(path, content=value)
        elif draw(st.booleans()) and not isinstance(value, bytes) and value.content is not None:
            moved = draw(PATHS)
            files[moved] = FileWrite(moved, content=value.content, executable=value.executable)
    for path in draw(st.lists(PATHS, max_size=6)):
        if draw(st.integers(0, 4)) == 0:
            target = draw(st.sampled_from([b"a", b"d/a", b"../a", b"nowhere"]))
            if target_problem(path, target) is None:
                files[path] = FileWrite(path, symlink=target)
                continue
        files[path] = FileWrite(path, content=draw(CONTENTS), executable=draw(st.booleans()))
    return {path: files[path] for path in files if not any(other.startswith(path + b"/") for other in files)}


@st.composite
def pairs(draw: st.DrawFn) -> tuple[dict[bytes, FileWrite], dict[bytes, FileWrite]]:
    before = draw(trees())
    return before, draw(trees(before))


def write_tree(folder: Path, files: Mapping[bytes, FileWrite]) -> None:
    for path, write in files.items():
        target = folder / os.fsdecode(path)
        target.parent.mkdir(parents=True, exist_ok=True)
        if write.symlink is not None:
            target.symlink_to(os.fsdecode(write.symlink))
        else:
            target.write_bytes(write.content or b"")
            target.chmod(0o755 if write.executable else 0o644)


def rebuilt(base: MemoryTree, patch: bytes) -> MemoryTree:
    result = MemoryTree.copy(base, max_bytes=10**9)
    result.apply(plan_writes(parse(patch), base).writes)
    return result


def between(before: Files, after: Files) -> bytes:
    extracted = extract(MemoryTree(before), MemoryTree(after))
    assert extracted.problem is None
    assert extracted.excluded == ()
    return extracted.patch


@settings(max_examples=250, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(pairs())
@example(({b"a": FileWrite(b"a", content=b"x\n")}, {b"a/b": FileWrite(b"a/b", content=b"x\n")}))
@example(({b"a/b": FileWrite(b"a/b", content=b"x\n")}, {b"a": FileWrite(b"a", symlink=b"b")}))
@example(({b"a": FileWrite(b"a", content=b"x\n")}, {b"b": FileWrite(b"b", content=b"x\n", executable=True)}))
def test_patch_turns_one_tree_into_the_other(pair: tuple[dict[bytes, FileWrite], dict[bytes, FileWrite]]) -> None:
    before, after = MemoryTree(pair[0]), MemoryTree(pair[1])
    extracted = extract(before, after)
    assert extracted.problem is None
    assert list(rebuilt(before, extracted.patch).entries()) == list(after.entries())
    patches = parse(extracted.patch)
    touched = {change.path for change in extracted.files} | {
        change.old_path for change in extracted.files if change.old_path
    }
    assert set(changed_paths(patches)) == touched
    assert (sum(item.added for item in patches), sum(item.removed for item in patches)) == (
        extracted.added,
        extracted.removed,
    )
    assert bool(extracted.patch) == (list(before.entries()) != list(after.entries()))
    assert extract(before, after) == extracted


@settings(
    max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture]
)
@given(pairs())
def test_git_applies_the_patch_with_the_same_result(
    tmp_path: Path, pair: tuple[dict[bytes, FileWrite], dict[bytes, FileWrite]]
) -> None:
    before, after = pair
    # git looks up paths below a symlink that the patch removes, and fails if the link points to itself.
    links = [path for path, write in before.items() if write.symlink is not None]
    assume(not any(path.startswith(link + b"/") for link in links for path in after))
    folder = repository(tmp_path / os.urandom(8).hex())
    write_tree(folder, before)
    extracted = extract(MemoryTree(before), MemoryTree(after))
    if extracted.patch:
        git(folder, "apply", "--whitespace=nowarn", stdin=extracted.patch)
    with FolderTree.at(folder) as tree:
        assert list(tree.entries()) == list(MemoryTree(after).entries())


def test_equal_trees_give_an_empty_patch() -> None:
    assert between({b"f": b"a\n"}, {b"f": b"a\n"}) == b""


def test_small_edit_is_rendered_like_git() -> None:
    patch = between({b"f": NUMBERS}, {b"f": NUMBERS.replace(b"line 30\n", b"changed\n")})
    assert patch.splitlines()[2:] == [
        b"--- a/f", b"+++ b/f", b"@@ -28,7 +28,7 @@", b" line 27", b" line 28", b" line 29", b"-line 30", b"+changed",
        b" line 31", b" line 32", b" line 33",
    ]  # fmt: skip


def test_changes_have_entries_modes_and_line_counts() -> None:
    before = {b"f": b"a\nb\n", b"m": b"m\n", b"gone": b"1\n2\n", b"old": NUMBERS, b"bin": b"\0a"}
    after: Files = {
        b"f": b"a\nc\nd\n", b"m": FileWrite(b"m", content=b"m\n", executable=True), b"new": NUMBERS + b"x\n", b"bin": b"\0b",
    }  # fmt: skip
    extracted = extract(MemoryTree(before), MemoryTree(after))
    shown = {
        change.path: (change.change, change.before_mode, change.after_mode, change.binary, change.added, change.removed)
        for change in extracted.files
    }
    assert shown == {
        b"f": ("modified", "100644", "100644", False, 2, 1),
        b"m": ("mode", "100644", "100755", False, 0, 0),
        b"gone": ("deleted", "100644", None, False, 0, 2),
        b"new": ("renamed", "100644", "100644", False, 1, 0),
        b"bin": ("modified", "100644", "100644", True, 0, 0),
    }
    assert (extracted.added, extracted.removed) == (3, 3)
    renamed = next(change for change in extracted.files if change.change == "renamed")
    assert renamed.old_path == b"old"
    base = {entry.path: entry for entry in MemoryTree(before).entries()}
    assert renamed.before == base[b"old"]


@pytest.mark.req("C-20")
def test_generated_files_are_not_in_the_patch() -> None:
    before = {b"src/m.py": b"a\n", b"build/old": b"x"}
    after = {
        b"src/m.py": b"b\n", b"src/__pycache__/m.pyc": b"\0", b"deep/er/__pycache__/x\n.y": b"\0", b"build/lib/m.py": b"x",
        b"sub/build/kept": b"k\n", b"p.egg-info/PKG": b"x",
    }  # fmt: skip
    globs = ["**/__pycache__/**", "**/*.egg-info/**", "build/**"]
    extracted = extract(MemoryTree(before), MemoryTree(after), generated=globs)
    assert [change.path for change in extracted.files] == [b"src/m.py", b"sub/build/kept"]
    assert [(change.path, change.change, change.generated) for change in extracted.generated] == [
        (b"build/lib/m.py", "added", True),
        (b"build/old", "deleted", True),
        (b"deep/er/__pycache__/x\n.y", "added", True),
        (b"p.egg-info/PKG", "added", True),
        (b"src/__pycache__/m.pyc", "added", True),
    ]
    assert changed_paths(parse(extracted.patch)) == (b"src/m.py", b"sub/build/kept")


class TestExcludedEntries:
    def test_special_files_are_excluded_with_a_reason(self, tmp_path: Path) -> None:
        (tmp_path / "kept").write_text("x\n")
        os.mkfifo(tmp_path / "fifo")
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind(str(tmp_path / "socket"))
        with FolderTree.at(tmp_path) as tree:
            extracted = extract(MemoryTree({b"fifo": b"was a file\n"}), tree)
        assert extracted.problem is None
        assert [(item.path, item.reason) for item in extracted.excluded] == [
            (b"fifo", "neither a readable file nor a symlink"),
            (b"socket", "neither a readable file nor a symlink"),
        ]
        assert [(change.path, change.change) for change in extracted.files] == [
            (b"fifo", "deleted"),
            (b"kept", "added"),
        ]
        assert changed_paths(parse(extracted.patch)) == (b"fifo", b"kept")

    @pytest.mark.parametrize("target", [b"/etc/passwd", b"../../x", b"a/../../x", b".git/config"])
    def test_symlinks_out_of_the_tree_are_excluded(self, target: bytes) -> None:
        base = MemoryTree({b"link": b"a file\n", b"other": b"x\n"})
        extracted = extract(base, MemoryTree({b"link": FileWrite(b"link", symlink=target), b"other": b"y\n"}))
        assert [item.path for item in extracted.excluded] == [b"link"]
        assert dict(rebuilt(base, extracted.patch)._files).keys() == {b"other"}

    def test_unchanged_bad_link_is_not_a_change(self) -> None:
        bad: Files = {b"link": FileWrite(b"link", symlink=b"/usr/bin/python3"), b"f": b"x\n"}
        assert extract(MemoryTree(bad), MemoryTree({**bad, b"f": b"y\n"})).excluded == ()
        gone = extract(MemoryTree(bad), MemoryTree({b"f": b"x\n"}))
        assert dict(rebuilt(MemoryTree(bad), gone.patch)._files).keys() == {b"f"}

    def test_nested_repositories_are_included_without_their_git(self) -> None:
        after = {
            b"sub/.git/config": b"x",
            b"sub/.git/HEAD": b"x",
            b"sub/f": b"f\n",
            b"o/.GIT": b"gitdir: /\n",
            b"git~1": b"",
        }
        extracted = extract(MemoryTree(), MemoryTree(after))
        assert [(item.path, item.entries) for item in extracted.excluded] == [
            (b"git~1", 1),
            (b"o/.GIT", 1),
            (b"sub/.git", 2),
        ]
        assert [change.path for change in extracted.files] == [b"sub/f"]

    def test_too_long_path_is_excluded(self) -> None:
        extracted = extract(MemoryTree(), MemoryTree({b"d/" * 2500 + b"f": b"x"}))
        assert len(extracted.excluded) == 1
        assert extracted.patch == b""


class TestLimits:
    base = MemoryTree({b"f": b"a\n"})

    def problem(self, after: Files, limits: ExtractLimits) -> str:
        extracted = extract(self.base, MemoryTree(after), limits=limits)
        assert extracted.patch == b""
        assert extracted.files
        return str(extracted.problem)

    def test_problem_names_the_exceeded_limit(self) -> None:
        assert "2 files" in self.problem({b"f": b"b\n", b"g": b"b\n"}, ExtractLimits(files=1))
        assert "a file of 99 bytes" in self.problem({b"f": bytes(99)}, ExtractLimits(file_bytes=10))
        assert "101 bytes of content" in self.problem({b"f": bytes(99)}, ExtractLimits(total_bytes=100))
        assert "more than 100 bytes" in self.problem({b"f": os.urandom(200)}, ExtractLimits(patch_bytes=100))
        assert "100 lines" in self.problem({b"f": NUMBERS * 3}, ExtractLimits(patch_lines=100))

    def test_sizes_are_checked_before_content_is_read(self) -> None:
        class Untouchable(MemoryTree):
            def read(self, path: bytes, *, max_bytes: int) -> bytes:
                raise AssertionError(path)

        assert extract(self.base, Untouchable({b"f": bytes(99)}), limits=ExtractLimits(file_bytes=10)).problem

    def test_too_large_tree_is_a_problem_and_too_large_base_a_task_error(self, tmp_path: Path) -> None:
        for number in range(5):
            (tmp_path / str(number)).write_text("x")
        with FolderTree.at(tmp_path, limits=TreeLimits(entries=3)) as tree:
            assert "more than 3 entries" in str(extract(self.base, tree).problem)
            with pytest.raises(TaskError, match="more than 3 entries"):
                extract(tree, self.base)

    def test_texts_with_too_many_lines_are_not_compared_for_renames(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """As objects, lines need many times their bytes: an agent could use up the memory of the harness."""
        compared: list[int] = []

        def pair(changes: object, lines: Mapping[object, Sequence[bytes]]) -> object:
            compared.append(sum(map(len, lines.values())))
            return changes

        monkeypatch.setattr("agentbench.workspace.diff.extract.pair_similar", pair)
        after = MemoryTree({b"g": NUMBERS})
        extract(self.base, after, limits=ExtractLimits(patch_lines=61))
        assert compared == [61]
        extract(self.base, after, limits=ExtractLimits(patch_lines=60))
        assert compared == [61]

    def test_long_texts_are_binary_and_short_when_deleted(self) -> None:
        base = MemoryTree({b"f": NUMBERS * 100, b"g": NUMBERS * 100})
        after = MemoryTree({b"f": NUMBERS * 100 + b"x\n"})
        extracted = extract(base, after, limits=ExtractLimits(text_bytes=1000))
        assert [change.binary for change in extracted.files] == [True, True]
        assert list(rebuilt(base, extracted.patch).entries()) == list(after.entries())
        assert len(extracted.patch) < 3000


def test_patch_may_delete_all_files(tmp_path: Path) -> None:
    base = MemoryTree({b"f": b"a\n", b"d/g": b"b\n"})
    (tmp_path / "gone").mkdir()
    with FolderTree.at(tmp_path / "gone") as tree:
        (tmp_path / "gone").rmdir()
        extracted = extract(base, tree)
    assert [change.change for change in extracted.files] == ["deleted", "deleted"]
    assert list(rebuilt(base, extracted.patch).entries()) == []


def test_file_changed_while_read() -> None:
    class Moving(MemoryTree):
        def read(self, path: bytes, *, max_bytes: int) -> bytes:
            return b"?"

    still = MemoryTree({b"f": b"a"})
    assert "changed while it was read" in str(extract(MemoryTree({b"f": b"b"}), Moving({b"f": b"a"})).problem)
    with pytest.raises(WorkspaceError, match="base"):
        extract(Moving({b"f": b"b"}), still)


def test_conflict_markers_are_extracted_and_rejected_by_parse() -> None:
    text = b"<<<<<<< HEAD\na\n=======\nb\n>>>>>>> x\n"
    with pytest.raises(PatchInvalid, match="conflict markers"):
        parse(between({b"f": b"a\n"}, {b"f": text}))


def test_renames_of_equal_files_prefer_the_same_name() -> None:
    before = {b"a/x.py": b"same\n", b"a/y.py": b"same\n"}
    extracted = extract(MemoryTree(before), MemoryTree({b"b/y.py": b"same\n", b"b/x.py": b"same\n"}))
    assert [(change.old_path, change.path) for change in extracted.files] == [
        (b"a/x.py", b"b/x.py"),
        (b"a/y.py", b"b/y.py"),
    ]


def test_empty_files_are_not_paired_as_renames() -> None:
    extracted = extract(MemoryTree({b"a": b""}), MemoryTree({b"b": b""}))
    assert [change.change for change in extracted.files] == ["deleted", "added"]


@pytest.mark.req("E-05a")
def test_compare_reads_no_content() -> None:
    same = Entry(b"same", Kind.FILE, False, 1, "aa")
    before = [same, Entry(b"was", Kind.FILE, False, 1, "bb")]
    after = [Entry(b"is", Kind.SYMLINK, False, 1, "bb"), same]
    assert [(change.path, change.change) for change in compare(before, after)] == [
        (b"is", "added"),
        (b"was", "deleted"),
    ]


class TestHostileTree:
    """The patch is computed from content. git never reads a tree that an agent could write."""

    @pytest.fixture
    def workspace(self, tmp_path: Path) -> Path:
        folder = repository(tmp_path / "workspace")
        (folder / "kept").write_text("a\n")
        (folder / "hidden").write_text("a\n")
        commit_all(folder)
        return folder

    def test_git_settings_cannot_hide_changes(self, workspace: Path) -> None:
        with FolderTree.at(workspace) as tree:
            base = MemoryTree.copy(tree, max_bytes=1000)
        git(workspace, "update-index", "--assume-unchanged", "hidden")
        git(workspace, "update-index", "--skip-worktree", "kept")
        (workspace / "hidden").write_text("b\n")
        (workspace / ".gitignore").write_text("*\n")
        (workspace / ".git/info/exclude").write_text("*\n")
        (workspace / "ignored.py").write_text("x\n")
        nested = repository(workspace / "nested")
        (nested / "inside.py").write_text("x\n")
        commit_all(nested)
        old, new = (
            git(workspace, "hash-object", "-w", "--stdin", stdin=text).decode().strip() for text in (b"a\n", b"b\n")
        )
        git(workspace, "replace", new, old)
        git(workspace, "commit", "-q", "--allow-empty", "-am", "hide")
        with FolderTree.at(workspace) as tree:
            extracted = extract(base, tree)
        assert [change.path for change in extracted.files] == [
            b".gitignore",
            b"hidden",
            b"ignored.py",
            b"nested/inside.py",
        ]
        assert [item.path for item in extracted.excluded] == [b"nested/.git"]

    def test_commands_in_git_configuration_do_not_run(
        self, tmp_path: Path, workspace: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        pwn = f"touch {tmp_path}/pwned"
        config = "".join(f"\t{key} = {pwn}\n" for key in ("fsmonitor", "pager", "editor", "sshCommand", "hooksPath"))
        drivers = (
            f'[filter "x"]\n\tclean = {pwn}\n\tprocess = {pwn}\n[diff "x"]\n\tcommand = {pwn}\n\ttextconv = {pwn}\n'
        )
        (workspace / ".git/config").write_text(f"[core]\n{config}{drivers}")
        (workspace / ".gitattributes").write_text("* filter=x diff=x\n")
        (workspace / "kept").write_text("b\n")
        (workspace / "evil").write_text("gitdir: evil.git\n")
        git(tmp_path, "init", "-q", "--bare", str(workspace / "bare"))
        (workspace / "bare/config").write_text(f"[core]\n\tbare = true\n{config}")
        monkeypatch.setattr("agentbench.process.run_host", None)
        monkeypatch.setattr("subprocess.Popen", None)
        with FolderTree.at(workspace) as tree:
            extracted = extract(MemoryTree({b"kept": b"a\n", b"hidden": b"a\n"}), tree)
            writes = plan_writes(parse(extracted.patch), MemoryTree({b"kept": b"a\n", b"hidden": b"a\n"})).writes
        assert {write.path for write in writes} >= {b"kept", b"evil", b"bare/config", b".gitattributes"}
        assert not (tmp_path / "pwned").exists()

    def test_git_folder_replaced_by_a_symlink_or_file(self, tmp_path: Path, workspace: Path) -> None:
        for replace_git in (
            lambda: (workspace / ".git").symlink_to("/etc"),
            lambda: (workspace / ".git").write_text("gitdir: /"),
        ):
            (workspace / ".git").rename(tmp_path / os.urandom(4).hex())
            replace_git()
            with FolderTree.at(workspace) as tree:
                assert extract(MemoryTree({b"kept": b"a\n", b"hidden": b"a\n"}), tree).patch == b""
