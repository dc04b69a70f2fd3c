"""Patches are accepted as a whole or rejected as a whole."""

from __future__ import annotations

import base64
import contextlib
import gzip
import zlib

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentbench.core.errors import PatchInvalid
from agentbench.tree.entry import FileWrite
from agentbench.tree.memory import MemoryTree
from agentbench.workspace.diff import binary
from agentbench.workspace.diff.apply import plan_writes
from agentbench.workspace.diff.file_patch import Op, PatchLimits, changed_paths
from agentbench.workspace.diff.headers import quote, unquote
from agentbench.workspace.diff.parse import parse

pytestmark = [pytest.mark.req("T-03"), pytest.mark.component]

MODIFY = b"diff --git a/f b/f\n--- a/f\n+++ b/f\n@@ -1 +1 @@\n-a\n+b\n"
BASE = MemoryTree({b"f": b"a\n"})


def new_file(name: bytes, content: bytes = b"+x\n", mode: bytes = b"100644") -> bytes:
    header = quote(b"b/" + name)
    return (
        b"diff --git " + quote(b"a/" + name) + b" " + header + b"\nnew file mode " + mode + b"\n--- /dev/null\n+++ "
        + header + b"\n@@ -0,0 +1," + str(content.count(b"\n")).encode() + b" @@\n" + content
    )  # fmt: skip


def test_blank_patch_has_no_entries() -> None:
    assert parse(b"") == ()
    assert parse(b"\n \n") == ()


@pytest.mark.parametrize(
    "patch",
    [
        b"hello\n",
        b"*** Begin Patch\n*** Update File: f\n",
        b"@@ -1 +1 @@\n-a\n+b\n",
        b"diff --git a/f b/f\n",
        b"diff --git a/f b/f\nindex 123..456 100644\n",
        b"--- a/f\n+++ b/f\n",
        b"--- a/f\n+++ b/g\n@@ -1 +1 @@\n-a\n+b\n",
        b"--- /dev/null\n+++ /dev/null\n@@ -0,0 +1 @@\n+b\n",
        b"diff --git a/f b/f\n--- a/f\n+++ b/g\n@@ -1 +1 @@\n-a\n+b\n",
        b"diff --git a/f b/f\n--- a/g\n+++ b/g\n@@ -1 +1 @@\n-a\n+b\n",
        b"diff --git a/f b/f\nBinary files a/f and b/f differ\n",
        b"diff --cc f\nindex 1,2..3\n",
        b"diff --git a/f b/f\nnew file mode 100644\ndeleted file mode 100644\n",
        b"diff --git a/f b/f\nnew file mode 100644\n--- a/f\n+++ /dev/null\n@@ -1 +0,0 @@\n-a\n",
        b"diff --git a/f b/f\nrename from f\nrename to f\n",
        b'diff --git "a/f b/f\nold mode 100644\nnew mode 100755\n',
        b'diff --git "a/\\q" "b/\\q"\nold mode 100644\nnew mode 100755\n',
        b"diff --git a/f b/g\nold mode 100644\nnew mode 100755\n",
        b"--- a/f\n+++ b/f\n@@ -1,2 +1 @@\n-a\n+b\n",
        b"--- a/f\n+++ b/f\n@@ -1 +1 @@\n-a\n+b\n+c\n",
        b"--- a/f\n+++ b/f\n@@ -1 +1,2 @@\n-a\n+b\ngarbage\n",
        b"--- a/f\n+++ b/f\n@@ -1,0 +1,0 @@\n",
        b"--- a/f\n+++ b/f\n@@ -0,1 +1 @@\n-a\n+b\n",
        b"--- a/f\n+++ b/f\n@@ -1 +1 @@\n\\ No newline at end of file\n-a\n+b\n",
        b"--- a/f\n+++ b/f\n@@ -1,2 +1 @@\n-a\n\\ No newline at end of file\n-b\n+b\n",
        b"--- a/f\n+++ b/f\n@@ -1 +1 @@\n-a\n+b\n\\ No newline\n\\ No newline\n",
        b"--- a/f\n+++ b/f\n@@ -9999999999 +1 @@\n-a\n+b\n",
        b"diff --git a/f b/f\nindex zzz..yyy\n",
    ],
)
def test_malformed_patches_are_rejected(patch: bytes) -> None:
    with pytest.raises(PatchInvalid):
        parse(patch)


@pytest.mark.parametrize(
    "name",
    [
        b"../f", b"a/../../f", b"/etc/passwd", b"a//b", b"./f", b"a/./b", b"..", b".", b"a/",
        b".git/config", b".git", b".GIT/hooks/x", b"sub/.Git/config", b".git./config", b".git /x", b"git~1/x",
        b".git::$INDEX_ALLOCATION/x", b"sub\\.git\\config", ".g\u200cit/config".encode(), "\ufeff.git/x".encode(),
        b"a\0b", b"x" * 256, b"d/" * 2100 + b"f",
    ],
)  # fmt: skip
@pytest.mark.parametrize("form", ["new", "plain", "rename", "copy", "delete"])
def test_forbidden_paths_are_rejected(name: bytes, form: str) -> None:
    quoted_a, quoted_b, bare = quote(b"a/" + name), quote(b"b/" + name), quote(name)
    patch = {
        "new": new_file(name),
        "plain": b"--- " + quoted_a + b"\n+++ " + quoted_b + b"\n@@ -1 +1 @@\n-a\n+b\n",
        "rename": b"diff --git a/f " + quoted_b + b"\nrename from f\nrename to " + bare + b"\n",
        "copy": b"diff --git " + quoted_a + b" b/f\ncopy from " + bare + b"\ncopy to f\n",
        "delete": b"diff --git " + quoted_a + b" " + quoted_b + b"\ndeleted file mode 100644\n--- " + quoted_a
        + b"\n+++ /dev/null\n@@ -1 +0,0 @@\n-a\n",
    }[form]  # fmt: skip
    with pytest.raises(PatchInvalid):
        parse(patch)


@pytest.mark.parametrize(
    "name", [b".gitignore", b".github/x", b"a.git/x", b"git/x", b"...", b"-rf", b" x", b"a\\b", b"\xff\n"]
)
def test_unusual_paths_are_accepted(name: bytes) -> None:
    (file_patch,) = parse(new_file(name))
    assert (file_patch.op, file_patch.new_path) == (Op.ADD, name)


def test_empty_name_is_rejected() -> None:
    with pytest.raises(PatchInvalid):
        parse(b"--- a/\n+++ b/\n@@ -1 +1 @@\n-a\n+b\n")


@pytest.mark.parametrize("mode", [b"100600", b"104755", b"160000", b"040000", b"100664", b"10064", b"0100644", b"x"])
@pytest.mark.parametrize("line", [b"new file mode ", b"old mode ", b"new mode ", b"deleted file mode "])
def test_unsupported_modes_are_rejected(line: bytes, mode: bytes) -> None:
    with pytest.raises(PatchInvalid, match="mode"):
        parse(b"diff --git a/f b/f\n" + line + mode + b"\n")


def test_file_cannot_become_a_symlink_in_one_entry() -> None:
    with pytest.raises(PatchInvalid):
        parse(b"diff --git a/f b/f\nold mode 100644\nnew mode 120000\n")
    with pytest.raises(PatchInvalid):
        plan_writes(parse(b"diff --git a/f b/f\nnew mode 120000\n--- a/f\n+++ b/f\n@@ -1 +1 @@\n-a\n+b\n"), BASE)


@pytest.mark.req("G-03a")
def test_added_conflict_markers_are_rejected() -> None:
    markers = b"+<<<<<<< HEAD\n+a\n+=======\n+b\n+>>>>>>> other\n"
    with pytest.raises(PatchInvalid, match="conflict markers"):
        parse(new_file(b"f", markers))
    with pytest.raises(PatchInvalid, match="conflict markers"):
        parse(new_file(b"f", markers.replace(b"\n", b"\r\n")))


@pytest.mark.parametrize(
    "lines",
    [
        b"+=======\n",
        b"+Title\n+=======\n+>>>>>>> quote\n",
        b"+<<<<<<< a\n+>>>>>>> b\n",
        b"+ <<<<<<< HEAD\n+ =======\n+ >>>>>>> x\n",
        b"+<<<<<<<< \n+========\n+>>>>>>>>\n",
    ],
)
def test_incomplete_conflict_markers_are_accepted(lines: bytes) -> None:
    assert parse(new_file(b"f", lines))


def test_conflict_markers_in_context_are_accepted() -> None:
    patch = b"--- a/f\n+++ b/f\n@@ -1,3 +1,4 @@\n <<<<<<< a\n =======\n >>>>>>> b\n+x\n"
    assert parse(patch)


@pytest.mark.parametrize(
    "patch",
    [
        MODIFY + MODIFY,
        new_file(b"g") + new_file(b"g"),
        MODIFY + b"diff --git a/f b/f\ndeleted file mode 100644\n--- a/f\n+++ /dev/null\n@@ -1 +0,0 @@\n-a\n",
        MODIFY + b"diff --git a/f b/g\nrename from f\nrename to g\n",
        b"diff --git a/f b/g\nrename from f\nrename to g\ndiff --git a/f b/h\nrename from f\nrename to h\n",
        new_file(b"g") + b"diff --git a/f b/g\nrename from f\nrename to g\n",
    ],
)
def test_path_changed_twice_is_rejected(patch: bytes) -> None:
    with pytest.raises(PatchInvalid):
        parse(patch)


def test_text_around_a_diff_is_skipped() -> None:
    mail = b"From 123 Mon Sep 17\nSubject: [PATCH] x\n\nbody\n---\n f | 2 +-\n\n" + MODIFY + b"-- \n2.39.5\n\n"
    (file_patch,) = parse(mail)
    assert file_patch.path == b"f"


@pytest.mark.parametrize(
    "old,new,name",
    [
        (b"a/d/f", b"b/d/f", b"d/f"),
        (b"d/f", b"d/f", b"d/f"),
        (b"i/d/f", b"w/d/f", b"d/f"),
        (b"old/d/f", b"new/d/f", b"d/f"),
        (b"f.orig", b"f", b"f"),
        (b"a/d/f\t2020-01-01 10:00:00", b"b/d/f\t2020-01-01 10:00:00", b"d/f"),
        (b"a/with space\t", b"b/with space\t", b"with space"),
        (b'"a/\\303\\244\\n"', b'"b/\\303\\244\\n"', b"\xc3\xa4\n"),
    ],
)
def test_file_names_of_plain_diffs(old: bytes, new: bytes, name: bytes) -> None:
    (file_patch,) = parse(b"--- " + old + b"\n+++ " + new + b"\n@@ -1 +1 @@\n-a\n+b\n")
    assert file_patch.path == name


def test_epoch_time_stamp_marks_new_and_deleted_files() -> None:
    stamp = b"\t1970-01-01 00:00:00.000000000 +0000"
    (added,) = parse(b"--- a/n" + stamp + b"\n+++ b/n\t2020-01-01\n@@ -0,0 +1 @@\n+b\n")
    (deleted,) = parse(b"--- a/n\t2020-01-01\n+++ b/n" + stamp + b"\n@@ -1 +0,0 @@\n-b\n")
    assert (added.op, deleted.op) == (Op.ADD, Op.DELETE)


def test_folder_named_like_a_prefix_is_kept() -> None:
    (added,) = parse(b"diff --git b/x b/x\nnew file mode 100644\n--- /dev/null\n+++ b/x\n@@ -0,0 +1 @@\n+k\n")
    (prefixed,) = parse(b"diff --git a/x b/x\nnew file mode 100644\n--- /dev/null\n+++ b/x\n@@ -0,0 +1 @@\n+k\n")
    assert (added.path, prefixed.path) == (b"b/x", b"x")


def test_messages_with_long_names_stay_short() -> None:
    with pytest.raises(PatchInvalid) as caught:
        parse(b"--- a/" + b"x" * 100_000 + b"\n+++ b/" + b"x" * 100_000 + b"\n@@ -1 +1 @@\n-a\n+b\n")
    assert len(str(caught.value)) < 500


def test_names_with_spaces_in_mode_changes() -> None:
    (file_patch,) = parse(b"diff --git a/a b c b/a b c\nold mode 100644\nnew mode 100755\n")
    assert file_patch.path == b"a b c"


def test_added_lines_have_line_numbers() -> None:
    (file_patch,) = parse(b"--- a/f\n+++ b/f\n@@ -3,2 +4,3 @@ def x\n a\n-b\n+c\n+d\n")
    assert list(file_patch.added_lines()) == [(5, b"c\n"), (6, b"d\n")]
    assert (file_patch.added, file_patch.removed) == (2, 1)


def test_changed_paths_include_rename_sources_but_not_copy_sources() -> None:
    patches = parse(
        b"diff --git a/f b/g\nrename from f\nrename to g\ndiff --git a/h b/i\ncopy from h\ncopy to i\n" + new_file(b"a")
    )
    assert changed_paths(patches) == (b"a", b"f", b"g", b"i")


class TestBombs:
    def test_size_lines_and_files_are_limited(self) -> None:
        with pytest.raises(PatchInvalid, match="bytes"):
            parse(MODIFY, PatchLimits(patch_bytes=10))
        with pytest.raises(PatchInvalid, match="lines"):
            parse(MODIFY, PatchLimits(lines=3))
        with pytest.raises(PatchInvalid, match="files"):
            parse(new_file(b"a") + new_file(b"b"), PatchLimits(files=1))

    def literal(self, size: int, packed: bytes) -> bytes:
        lines = b"".join(
            bytes([len(piece) + (64 if len(piece) <= 26 else 70)]) + base64.b85encode(piece, pad=True) + b"\n"
            for piece in (packed[start : start + 52] for start in range(0, len(packed), 52))
        )
        head = b"diff --git a/n b/n\nnew file mode 100644\nGIT binary patch\nliteral %d\n" % size
        return head + lines + b"\n"

    def test_literal_larger_than_declared_is_rejected(self) -> None:
        packed = zlib.compress(bytes(100_000_000), 9)
        with pytest.raises(PatchInvalid, match="does not decompress"):
            parse(self.literal(1000, packed))

    def test_literal_is_rejected_by_its_declared_size(self) -> None:
        packed = zlib.compress(bytes(1_000_000), 9)
        with pytest.raises(PatchInvalid, match="the limit is 1000"):
            parse(self.literal(1_000_000, packed), PatchLimits(file_bytes=1000))
        with pytest.raises(PatchInvalid, match="exceeds the size limits"):
            parse(self.literal(1_000_000, packed), PatchLimits(total_bytes=1000))

    def test_delta_is_rejected_by_its_declared_size(self) -> None:
        delta = b"\x00" + b"\xff\xff\xff\xff\x7f" + b"\x01x"
        packed = zlib.compress(delta)
        patch = self.literal(len(delta), packed).replace(b"literal", b"delta")
        with pytest.raises(PatchInvalid, match="exceeds the size limits"):
            parse(patch)

    def test_endless_delta_stops_at_its_declared_size(self) -> None:
        source = bytes(0x10000)
        delta = b"\x80\x80\x04" + b"\x0a" + b"\x80" * 100_000
        with pytest.raises(PatchInvalid):
            binary.apply_delta(source, delta)

    def test_total_size_of_copies_is_limited(self) -> None:
        base = MemoryTree({b"big": bytes(1_000_000)})
        patch = b"".join(
            b"diff --git a/big b/c%d\ncopy from big\ncopy to c%d\n" % (number, number) for number in range(300)
        )
        with pytest.raises(PatchInvalid, match="patched content exceeds"):
            plan_writes(parse(patch), base)

    @pytest.mark.parametrize("line", [b"A", b"A!", b"zzz\xff", b"{12345", b"B00000\x00"])
    def test_damaged_base85_is_rejected(self, line: bytes) -> None:
        head = b"diff --git a/n b/n\nnew file mode 100644\nGIT binary patch\nliteral 1\n"
        with pytest.raises(PatchInvalid):
            parse(head + line + b"\n\n")


@given(st.binary(max_size=20).filter(lambda name: b"\0" not in name))
def test_quoted_names_round_trip(name: bytes) -> None:
    quoted = quote(name)
    assert b"\n" not in quoted
    if quoted != name:
        assert unquote(quoted + b" rest") == (name, b" rest")


FRAGMENTS = st.sampled_from(
    [
        b"diff --git a/f b/f\n", b"--- a/f\n", b"+++ b/f\n", b"--- /dev/null\n", b"+++ /dev/null\n", b"@@ -1 +1 @@\n",
        b"@@ -1,2 +1,3 @@ x\n", b"@@ -0,0 +1 @@\n", b"-a\n", b"+b\n", b" c\n", b"\n", b"\\ No newline at end of file\n",
        b"new file mode 100644\n", b"new file mode 120000\n", b"deleted file mode 100644\n", b"old mode 100644\n",
        b"new mode 100755\n", b"rename from f\n", b"rename to g\n", b"copy from f\n", b"copy to g\n",
        b"similarity index 100%\n", b"index 0000000..1111111 100644\n", b"GIT binary patch\n", b"literal 3\n",
        b"delta 3\n", b"KcmZQzfB^wI4*UQB\n", b'diff --git "a/\\303" "b/\\303"\n', b"+<<<<<<< x\n", b"+=======\n",
        b"diff --git a/.git/x b/.git/x\n", b"--- a/../x\n", b"+++ b/../x\n", b"\r\n", b"\0", b"-- \n", b"Binary files \n",
    ]
)  # fmt: skip


@settings(max_examples=400, deadline=None)
@given(st.lists(st.one_of(FRAGMENTS, st.binary(max_size=10)), max_size=14).map(b"".join))
def test_arbitrary_input_raises_only_patch_invalid(patch: bytes) -> None:
    try:
        writes = plan_writes(parse(patch), MemoryTree({b"f": b"a\nc\n"}), fuzz=1).writes
    except PatchInvalid:
        return
    for write in writes:
        assert b".git" not in write.path.split(b"/")
        assert b".." not in write.path.split(b"/")


@settings(max_examples=200, deadline=None)
@given(data=st.data())
def test_damaged_patch_raises_only_patch_invalid(data: st.DataObject) -> None:
    content = bytes(range(256))
    whole = (
        MODIFY
        + b"diff --git a/n b/n\nnew file mode 100755\nindex %s..%s\nGIT binary patch\nliteral 256\n%s\n"
        % (b"0" * 40, binary.blob_id(content).encode(), binary.encode(content))
        + b"diff --git a/g b/h\nsimilarity index 50%\nrename from g\nrename to h\n--- a/g\n+++ b/h\n@@ -1 +1 @@\n-x\n+y\n"
    )
    damaged = bytearray(whole)
    for _ in range(data.draw(st.integers(1, 4))):
        index = data.draw(st.integers(0, len(damaged) - 1))
        damaged[index : index + data.draw(st.integers(0, 5))] = data.draw(st.binary(max_size=5))
    base = MemoryTree({b"f": b"a\n", b"g": b"x\n", b"e": FileWrite(b"e", symlink=b"f")})
    with contextlib.suppress(PatchInvalid):
        plan_writes(parse(bytes(damaged)), base)


def test_byte_order_mark_is_skipped() -> None:
    assert parse(b"\xef\xbb\xbf" + MODIFY) == parse(MODIFY)


@pytest.mark.parametrize(
    "patch, message",
    [
        (MODIFY.decode().encode("utf-16"), "UTF-16"),
        (gzip.compress(MODIFY, mtime=0), "gzip"),
        (b"hello\n", "contains no diff"),
    ],
    ids=["utf-16", "gzip", "text"],
)
def test_files_that_are_no_diff_are_described(patch: bytes, message: str) -> None:
    with pytest.raises(PatchInvalid, match=message):
        parse(patch)
