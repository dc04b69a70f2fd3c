"""Patches are applied completely or not at all, at the right place, and never through a symlink."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentbench.core.errors import PatchInvalid, WorkspaceError
from agentbench.sandbox.protocol import Limits
from agentbench.tree.entry import Entry, FileWrite
from agentbench.tree.folder import FolderTree
from agentbench.tree.limits import TreeTooLarge
from agentbench.tree.memory import MemoryTree
from agentbench.workspace.diff.apply import PatchedTree, plan_writes
from agentbench.workspace.diff.extract import extract
from agentbench.workspace.diff.file_patch import PatchLimits
from agentbench.workspace.diff.parse import parse
from tests.workspace.reference_git import commit_all, git, repository

pytestmark = [pytest.mark.req("T-03"), pytest.mark.component]

NUMBERS = b"".join(b"%d\n" % number for number in range(1, 21))


def after(base: MemoryTree, patch: bytes, fuzz: int = 0) -> dict[bytes, FileWrite]:
    result = MemoryTree.copy(base, max_bytes=10**9)
    result.apply(plan_writes(parse(patch), base, fuzz=fuzz).writes)
    return dict(result._files)


def contents(base: MemoryTree, patch: bytes, fuzz: int = 0) -> dict[bytes, bytes | None]:
    return {path: write.content for path, write in after(base, patch, fuzz).items()}


def assert_rejected(base: MemoryTree, patch: bytes, reason: str) -> None:
    with pytest.raises(PatchInvalid, match=reason):
        plan_writes(parse(patch), base)


class TestPlacement:
    base = MemoryTree({b"f": NUMBERS})

    def test_hunk_at_its_line_number(self) -> None:
        patch = b"--- a/f\n+++ b/f\n@@ -2,3 +2,3 @@\n 2\n-3\n+three\n 4\n"
        assert contents(self.base, patch)[b"f"] == NUMBERS.replace(b"\n3\n", b"\nthree\n")
        assert plan_writes(parse(patch), self.base).moved == ()

    def test_hunks_with_wrong_line_numbers_are_moved_and_reported(self) -> None:
        patch = b"--- a/f\n+++ b/f\n@@ -12,3 +12,3 @@\n 2\n-3\n+three\n 4\n@@ -18,2 +18,3 @@\n 8\n+x\n 9\n"
        planned = plan_writes(parse(patch), self.base)
        assert planned.writes[0].content == NUMBERS.replace(b"\n3\n", b"\nthree\n").replace(b"\n8\n", b"\n8\nx\n")
        assert [(path, item.line, item.offset, item.fuzz) for path, item in planned.moved] == [
            (b"f", 2, -10, 0),
            (b"f", 8, -10, 0),
        ]

    def test_ambiguous_place_is_rejected(self) -> None:
        base = MemoryTree({b"f": b"x\ny\n" * 5})
        assert_rejected(base, b"--- a/f\n+++ b/f\n@@ -4,2 +4,2 @@\n x\n-y\n+z\n", "more than once")
        assert (
            contents(base, b"--- a/f\n+++ b/f\n@@ -3,2 +3,2 @@\n x\n-y\n+z\n")[b"f"] == b"x\ny\nx\nz\n" + b"x\ny\n" * 3
        )

    def test_hunk_that_fits_nowhere_is_rejected(self) -> None:
        assert_rejected(self.base, b"--- a/f\n+++ b/f\n@@ -2,2 +2,2 @@\n 2\n-9\n+x\n", r"f: hunk 1 \(line 3")

    def test_part_of_a_line_is_not_a_match(self) -> None:
        base = MemoryTree({b"f": b"xabc\nabcx\nabc"})
        assert_rejected(base, b"--- a/f\n+++ b/f\n@@ -1 +1 @@\n-abc\n+z\n", "does not match")

    def test_hunks_in_the_wrong_order_are_rejected(self) -> None:
        patch = b"--- a/f\n+++ b/f\n@@ -9,1 +9,1 @@\n-9\n+x\n@@ -3,1 +3,1 @@\n-3\n+x\n"
        assert_rejected(self.base, patch, "hunk 2")

    def test_fuzz_is_used_only_on_request(self) -> None:
        patch = b"--- a/f\n+++ b/f\n@@ -2,3 +2,3 @@\n two\n-3\n+three\n four\n"
        assert_rejected(self.base, patch, "does not match")
        planned = plan_writes(parse(patch), self.base, fuzz=1)
        assert planned.writes[0].content == NUMBERS.replace(b"\n3\n", b"\nthree\n")
        assert planned.fuzz == 1
        assert contents(self.base, patch, fuzz=2) == contents(self.base, patch, fuzz=1)

    def test_removed_lines_are_never_fuzzy(self) -> None:
        patch = b"--- a/f\n+++ b/f\n@@ -2,3 +2,3 @@\n 2\n-three\n+x\n 4\n"
        with pytest.raises(PatchInvalid):
            plan_writes(parse(patch), self.base, fuzz=3)

    def test_hunk_without_context_needs_its_line_number(self) -> None:
        assert contents(self.base, b"--- a/f\n+++ b/f\n@@ -20,0 +21 @@\n+21\n")[b"f"] == NUMBERS + b"21\n"
        assert_rejected(self.base, b"--- a/f\n+++ b/f\n@@ -21,0 +22 @@\n+22\n", "does not match")

    def test_search_takes_linear_time(self) -> None:
        base = MemoryTree({b"f": b"a\n" * 500_000})
        patch = b"--- a/f\n+++ b/f\n@@ -1,20001 +1,20000 @@\n" + b" a\n" * 20_000 + b"-b\n"
        assert_rejected(base, patch, "does not match")


class TestLineEndings:
    def test_crlf_is_content(self) -> None:
        base = MemoryTree({b"f": b"a\r\nb\r\n"})
        assert contents(base, b"--- a/f\n+++ b/f\n@@ -1,2 +1,2 @@\n a\r\n-b\r\n+c\r\n")[b"f"] == b"a\r\nc\r\n"
        assert_rejected(base, b"--- a/f\n+++ b/f\n@@ -1,2 +1,2 @@\n a\n-b\n+c\n", "does not match")

    def test_headers_may_end_in_crlf(self) -> None:
        base = MemoryTree({b"f": b"a\r\n"})
        patch = b"diff --git a/f b/f\r\n--- a/f\r\n+++ b/f\r\n@@ -1 +1 @@\r\n-a\r\n+b\r\n"
        assert contents(base, patch)[b"f"] == b"b\r\n"

    @pytest.mark.parametrize(
        "content, ending, message",
        [
            (b"a\n", b"\r\n", "does not match the file; the patch has CRLF line endings, the other has LF"),
            (b"a\r\n", b"\n", "does not match the file; the file has CRLF line endings, the other has LF"),
            (b"x\n", b"\n", "does not match the file"),
        ],
    )
    def test_error_mentions_different_line_endings(self, content: bytes, ending: bytes, message: str) -> None:
        patch = b"--- a/f\n+++ b/f\n@@ -1 +1 @@\n-a" + ending + b"+b" + ending
        with pytest.raises(PatchInvalid) as caught:
            contents(MemoryTree({b"f": content}), patch)
        assert caught.value.message.endswith(message)

    def test_missing_newline_at_end_of_file(self) -> None:
        no = b"\\ No newline at end of file\n"
        base = MemoryTree({b"f": b"a\nb"})
        head = b"--- a/f\n+++ b/f\n@@ -1,2 +1,2 @@\n a\n"
        assert contents(base, head + b"-b\n" + no + b"+c\n" + no)[b"f"] == b"a\nc"
        assert contents(base, head + b"-b\n" + no + b"+b\n")[b"f"] == b"a\nb\n"
        assert_rejected(base, head + b"-b\n+c\n", "does not match")
        assert_rejected(MemoryTree({b"f": b"a\nb\nc\n"}), head + b"-b\n+c\n" + no, "without a newline inside")
        assert_rejected(
            MemoryTree({b"f": b"a"}), b"--- a/f\n+++ b/f\n@@ -1,0 +2 @@\n+b\n", "after a last line without a newline"
        )

    def test_empty_context_lines_may_lack_their_space(self) -> None:
        base = MemoryTree({b"f": b"a\n\nb\n"})
        assert contents(base, b"--- a/f\n+++ b/f\n@@ -1,3 +1,3 @@\n a\n\n-b\n+c\n")[b"f"] == b"a\n\nc\n"


class TestFiles:
    base = MemoryTree({b"f": b"a\n", b"d/g": b"g\n", b"x": FileWrite(b"x", content=b"x\n", executable=True)})

    def test_new_file_in_new_folders(self) -> None:
        assert contents(self.base, b"--- /dev/null\n+++ b/n/m/k\n@@ -0,0 +1 @@\n+k\n")[b"n/m/k"] == b"k\n"

    def test_plain_diff_without_old_lines_creates_the_file(self) -> None:
        assert contents(self.base, b"--- a/n\n+++ b/n\n@@ -0,0 +1 @@\n+k\n")[b"n"] == b"k\n"

    def test_new_file_that_already_exists_is_rejected(self) -> None:
        assert_rejected(self.base, b"--- /dev/null\n+++ b/f\n@@ -0,0 +1 @@\n+k\n", "already exists")

    @pytest.mark.parametrize(
        "form", [b"--- a/no\n+++ b/no\n@@ -1 +1 @@\n-a\n+b\n", b"--- a/d\n+++ b/d\n@@ -1 +1 @@\n-a\n+b\n"]
    )
    def test_missing_files_and_folders_cannot_be_modified(self, form: bytes) -> None:
        assert_rejected(self.base, form, "no such file to modify")

    def test_deletion_checks_the_content(self) -> None:
        assert b"f" not in contents(self.base, b"--- a/f\n+++ /dev/null\n@@ -1 +0,0 @@\n-a\n")
        assert_rejected(self.base, b"--- a/f\n+++ /dev/null\n@@ -1 +0,0 @@\n-b\n", "does not match")
        assert_rejected(self.base, b"diff --git a/f b/f\ndeleted file mode 100644\n", "leaves content")

    def test_executable_bit_is_kept_unless_the_patch_sets_it(self) -> None:
        edit = b"@@ -1 +1 @@\n-x\n+y\n"
        assert after(self.base, b"--- a/x\n+++ b/x\n" + edit)[b"x"].executable
        stale = b"diff --git a/x b/x\nindex 123456..654321 100644\n--- a/x\n+++ b/x\n" + edit
        assert after(self.base, stale)[b"x"].executable
        assert not after(self.base, b"diff --git a/x b/x\nold mode 100755\nnew mode 100644\n")[b"x"].executable
        assert after(self.base, b"diff --git a/f b/f\nold mode 100644\nnew mode 100755\n")[b"f"].executable

    def test_one_failing_entry_rejects_the_patch(self) -> None:
        patch = b"--- a/f\n+++ b/f\n@@ -1 +1 @@\n-a\n+b\n--- a/d/g\n+++ b/d/g\n@@ -1 +1 @@\n-nope\n+b\n"
        assert_rejected(self.base, patch, "d/g: hunk 1")

    def test_two_files_can_swap_names(self) -> None:
        patch = b"diff --git a/f b/x\nrename from f\nrename to x\ndiff --git a/x b/f\nrename from x\nrename to f\n"
        files = after(self.base, patch)
        assert (files[b"f"].content, files[b"f"].executable) == (b"x\n", True)
        assert (files[b"x"].content, files[b"x"].executable) == (b"a\n", False)

    def test_copy_uses_the_content_before_the_patch(self) -> None:
        patch = b"--- a/f\n+++ b/f\n@@ -1 +1 @@\n-a\n+b\ndiff --git a/f b/c\ncopy from f\ncopy to c\n"
        assert contents(self.base, patch) == {b"f": b"b\n", b"c": b"a\n", b"d/g": b"g\n", b"x": b"x\n"}

    def test_rename_onto_an_existing_file_is_rejected(self) -> None:
        assert_rejected(self.base, b"diff --git a/f b/x\nrename from f\nrename to x\n", "already exists")

    def test_number_of_files_and_folders_is_limited(self) -> None:
        patch = b"".join(
            b"diff --git a/%b b/%b\nnew file mode 100644\nindex 0000000..e69de29\n" % (path, path)
            for path in (b"a/b/c", b"a/b/d", b"a/b-c/d", b"a.b/c")
        )
        # a, a/b, a/b/c, a/b/d, a/b-c, a/b-c/d, a.b, a.b/c
        assert len(plan_writes(parse(patch), MemoryTree(), limits=PatchLimits(entries=8)).writes) == 4
        with pytest.raises(PatchInvalid, match="writes 8 files and folders, the limit is 7"):
            plan_writes(parse(patch), MemoryTree(), limits=PatchLimits(entries=7))

    def test_a_patch_may_write_what_a_sandbox_has_room_for(self) -> None:
        assert PatchLimits().entries == Limits().inodes

    def test_deletions_come_before_files(self) -> None:
        patch = b"diff --git a/f b/f/inner\nrename from f\nrename to f/inner\n"
        writes = plan_writes(parse(patch), self.base).writes
        assert [(write.path, write.content) for write in writes] == [(b"f", None), (b"f/inner", b"a\n")]

    def test_file_replaces_only_an_emptied_folder(self) -> None:
        new = b"--- /dev/null\n+++ b/d\n@@ -0,0 +1 @@\n+k\n"
        assert_rejected(self.base, new, "is a folder")
        assert contents(self.base, b"--- a/d/g\n+++ /dev/null\n@@ -1 +0,0 @@\n-g\n" + new)[b"d"] == b"k\n"

    def test_file_below_a_file_is_rejected(self) -> None:
        assert_rejected(self.base, b"--- /dev/null\n+++ b/f/k\n@@ -0,0 +1 @@\n+k\n", "goes through a file")
        both = b"--- /dev/null\n+++ b/n\n@@ -0,0 +1 @@\n+k\n--- /dev/null\n+++ b/n/k\n@@ -0,0 +1 @@\n+k\n"
        assert_rejected(self.base, both, "goes through n")

    def test_tree_without_entry_lookup_gives_the_same_result(self) -> None:
        class Listed:
            def __init__(self, tree: MemoryTree) -> None:
                self.entries = tree.entries
                self.read = tree.read

        listed = Listed(self.base)
        for patch, reason in (
            (b"--- /dev/null\n+++ b/f/k\n@@ -0,0 +1 @@\n+k\n", "goes through a file"),
            (b"--- /dev/null\n+++ b/d\n@@ -0,0 +1 @@\n+k\n", "is a folder"),
            (b"--- a/d\n+++ b/d\n@@ -1 +1 @@\n-a\n+b\n", "no such file"),
        ):
            with pytest.raises(PatchInvalid, match=reason):
                plan_writes(parse(patch), listed)
        edit = parse(b"--- a/f\n+++ b/f\n@@ -1 +1 @@\n-a\n+b\n")
        assert plan_writes(edit, listed).writes == plan_writes(edit, self.base).writes

    def test_unreadable_files_are_not_patched(self) -> None:
        class Closed(MemoryTree):
            def entry(self, path: bytes) -> Entry | None:
                raise PermissionError(13, "Permission denied")

        with pytest.raises(PatchInvalid, match="f: cannot be read"):
            plan_writes(parse(b"--- a/f\n+++ b/f\n@@ -1 +1 @@\n-a\n+b\n"), Closed({b"f": b"a\n"}))

    def test_io_error_in_the_base_is_a_workspace_error(self) -> None:
        class Broken(MemoryTree):
            def read(self, path: bytes, *, max_bytes: int) -> bytes:
                raise OSError(5, "Input/output error")

        with pytest.raises(WorkspaceError):
            plan_writes(parse(b"--- a/f\n+++ b/f\n@@ -1 +1 @@\n-a\n+b\n"), Broken({b"f": b"a\n"}))


def symlink(path: bytes, target: bytes) -> bytes:
    return (
        b"diff --git a/%s b/%s\nnew file mode 120000\n--- /dev/null\n+++ b/%s\n@@ -0,0 +1 @@\n+%s\n"
        b"\\ No newline at end of file\n" % (path, path, path, target)
    )


class TestSymlinks:
    base = MemoryTree({b"f": b"a\n", b"link": FileWrite(b"link", symlink=b"d"), b"d/g": b"g\n"})

    def test_relative_target_inside_is_accepted(self) -> None:
        assert after(self.base, symlink(b"d/n", b"../f"))[b"d/n"].symlink == b"../f"
        assert after(self.base, symlink(b"n", b"d/g"))[b"n"].symlink == b"d/g"

    @pytest.mark.parametrize(
        "target",
        [b"/etc/passwd", b"../x", b"d/../../x", b"link/../../x", b"..", b".git/config", b"d/.GIT/x", b"./../x"],
    )
    def test_targets_outside_are_rejected(self, target: bytes) -> None:
        assert_rejected(self.base, symlink(b"n", target), "symlink not allowed")

    def test_empty_target_is_rejected(self) -> None:
        assert_rejected(
            self.base, b"diff --git a/n b/n\nnew file mode 120000\nindex 000000..e69de29\n", "symlink not allowed"
        )

    def test_no_write_through_a_symlink_of_the_tree(self) -> None:
        assert_rejected(
            self.base, b"--- /dev/null\n+++ b/link/n\n@@ -0,0 +1 @@\n+k\n", "goes through a file or symlink"
        )
        assert_rejected(self.base, b"--- a/link/g\n+++ b/link/g\n@@ -1 +1 @@\n-g\n+h\n", "no such file")
        assert_rejected(self.base, b"--- a/link\n+++ b/link\n@@ -1 +1 @@\n-g\n+h\n", "is a symlink")

    def test_no_write_through_a_symlink_of_the_same_patch(self) -> None:
        through = b"--- /dev/null\n+++ b/n/k\n@@ -0,0 +1 @@\n+k\n"
        assert_rejected(self.base, symlink(b"n", b"d") + through, "goes through n")
        assert_rejected(self.base, through + symlink(b"n", b"d"), "goes through n")

    def test_changed_and_moved_links_are_checked_again(self) -> None:
        no = b"\\ No newline at end of file\n"
        head = b"diff --git a/link b/link\nindex 1234567..7654321 120000\n--- a/link\n+++ b/link\n@@ -1 +1 @@\n"
        assert after(self.base, head + b"-d\n" + no + b"+f\n" + no)[b"link"].symlink == b"f"
        assert_rejected(self.base, head + b"-d\n" + no + b"+/etc\n" + no, "absolute")
        base = MemoryTree({b"d/l": FileWrite(b"d/l", symlink=b"../f")})
        assert_rejected(base, b"diff --git a/d/l b/l\nrename from d/l\nrename to l\n", "outside the workspace")

    def test_bad_link_of_the_base_can_be_deleted_and_replaced(self) -> None:
        base = MemoryTree({b"l": FileWrite(b"l", symlink=b"/etc/passwd")})
        delete = (
            b"diff --git a/l b/l\ndeleted file mode 120000\n--- a/l\n+++ /dev/null\n@@ -1 +0,0 @@\n-/etc/passwd\n"
            b"\\ No newline at end of file\n"
        )
        assert after(base, delete) == {}
        assert contents(base, delete + b"--- /dev/null\n+++ b/l\n@@ -0,0 +1 @@\n+k\n") == {b"l": b"k\n"}


def test_special_files_cannot_be_patched(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    with FolderTree.at(tmp_path) as tree:
        for patch in (
            b"--- a/fifo\n+++ b/fifo\n@@ -1 +1 @@\n-a\n+b\n",
            b"--- a/fifo\n+++ /dev/null\n@@ -1 +0,0 @@\n-a\n",
        ):
            with pytest.raises(PatchInvalid, match="not a regular file"):
                plan_writes(parse(patch), tree)


def write_tree(folder: Path, files: dict[bytes, bytes | FileWrite]) -> None:
    for path, value in files.items():
        target = folder / os.fsdecode(path)
        target.parent.mkdir(parents=True, exist_ok=True)
        if isinstance(value, bytes):
            target.write_bytes(value)
        elif value.symlink is not None:
            target.symlink_to(os.fsdecode(value.symlink))
        else:
            target.write_bytes(value.content or b"")
            target.chmod(0o755)


def entries(folder: Path) -> list[Entry]:
    with FolderTree.at(folder) as tree:
        return list(tree.entries())


LONG = b"".join(b"line %d\n" % number for number in range(200))
NOISE = bytes((number * 7919) % 251 for number in range(20_000))


@pytest.mark.parametrize("options", [(), ("-M",), ("-C", "--find-copies-harder"), ("-U0",), ("--no-prefix",), ("-W",)])
def test_patches_of_git_give_the_same_result_as_git(tmp_path: Path, options: tuple[str, ...]) -> None:
    folder = repository(tmp_path / "r")
    before: dict[bytes, bytes | FileWrite] = {
        b"edit": LONG, b"move/me": LONG.replace(b"line", b"row"), b"gone": b"x\n", b"empty": b"",
        b"type": b"text\n", b"noise": NOISE, b"old noise": NOISE[::-1], b"no newline": b"a\nb", b"crlf": b"a\r\nb\r\n",
        b'sp ace \t\n\xff"\\': b"q\n", b"mode": b"m\n", b"copied": LONG[::-1], b"dir/inside": b"i\n",
    }  # fmt: skip
    write_tree(folder, before)
    first = commit_all(folder)
    base = entries(folder)
    for path in ("gone", "type", "move/me", "empty", "old noise", "dir/inside"):
        (folder / path).unlink()
    (folder / "dir").rmdir()
    later: dict[bytes, bytes | FileWrite] = {
        b"edit": LONG.replace(b"line 50\n", b"").replace(b"line 150\n", b"changed\nand more\n"),
        b"moved/here": LONG.replace(b"line", b"row").replace(b"row 3\n", b"row three\n"),
        b"type": FileWrite(b"", symlink=b"edit"), b"noise": NOISE[:10_000] + b"inserted" + NOISE[10_000:],
        b"new noise": NOISE * 2, b"no newline": b"a\nc", b"crlf": b"a\r\nc\r\n", b'sp ace \t\n\xff"\\': b"r\n",
        b"mode": FileWrite(b"", content=b"m\n", executable=True), b"copy": LONG[::-1] + b"x\n", b"new empty": b"",
        b"dir": b"now a file\n",
    }  # fmt: skip
    write_tree(folder, later)
    second = commit_all(folder)
    patch = git(folder, "diff", "--binary", *options, first, second)
    expected = entries(folder)
    git(folder, "checkout", "-q", first)
    with FolderTree.at(folder) as tree:
        assert list(tree.entries()) == base
        memory = MemoryTree.copy(tree, max_bytes=10**9)
        memory.apply(plan_writes(parse(patch), tree).writes)
    assert list(memory.entries()) == expected
    if not options:
        assert b"delta " in patch
        assert b"literal " in patch


TREE_PATHS = st.sampled_from([b"a", b"a/b", b"a/b/c", b"a.b", b"d/e", b"f"])
TREES = st.dictionaries(TREE_PATHS, st.binary(max_size=4), max_size=5).map(
    lambda files: {path: files[path] for path in files if not any(other.startswith(path + b"/") for other in files)}
)


@given(TREES, TREES)
def test_patched_tree_equals_the_result_of_the_writes(before: dict[bytes, bytes], after: dict[bytes, bytes]) -> None:
    base = MemoryTree(before)
    tree = PatchedTree(base, plan_writes(parse(extract(base, MemoryTree(after)).patch), base).writes)
    assert list(tree.entries()) == list(MemoryTree(after).entries())
    assert {entry.path: tree.read(entry.path, max_bytes=10) for entry in tree.entries()} == after


def test_file_replacing_a_folder_hides_its_entries() -> None:
    tree = PatchedTree(MemoryTree({b"d/x": b"1", b"d.x": b"2"}), [FileWrite(b"d", content=b"3")])
    assert [entry.path for entry in tree.entries()] == [b"d", b"d.x"]


def test_deleted_and_too_large_files_cannot_be_read() -> None:
    tree = PatchedTree(MemoryTree({b"x": b"1"}), [FileWrite(b"x"), FileWrite(b"y", content=b"22")])
    with pytest.raises(FileNotFoundError):
        tree.read(b"x", max_bytes=9)
    with pytest.raises(TreeTooLarge):
        tree.read(b"y", max_bytes=1)
