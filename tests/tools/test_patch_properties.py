"""Properties of lenient patching: which errors of a patch are accepted, and which are not."""

from __future__ import annotations

import difflib
from pathlib import Path

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from agentbench.core.errors import PatchInvalid
from agentbench.tools.apply_patch import FUZZ
from agentbench.trace.events import PatchApplied
from agentbench.tree.memory import MemoryTree
from agentbench.workspace.diff.apply import PlannedWrites, plan_writes
from agentbench.workspace.diff.parse import parse
from tests.tools.conftest import OpenSession
from tests.tools.recorded_session import fill

pytestmark = [pytest.mark.req("T-03"), pytest.mark.component]

WORDS = st.sampled_from(["a", "b", "c", "", " x", "-", "+y", "@@ 1", "é"])
TEXTS = st.lists(WORDS, max_size=12)
DISTINCT = st.lists(st.integers(0, 60).map(str), unique=True, min_size=1, max_size=30)
CRLF = b"\r\n"


def diff(before: list[str], after: list[str]) -> bytes:
    lines = difflib.unified_diff(before, after, "a/f", "b/f", lineterm="", n=3)
    return "".join(f"{line}\n" for line in lines).encode()


def text(lines: list[str], end: bytes = b"\n") -> bytes:
    return b"".join(line.encode() + end for line in lines)


def leniently(patch: bytes, content: bytes) -> PlannedWrites:
    return plan_writes(parse(patch), MemoryTree({b"f": content}), fuzz=FUZZ, ignore_line_endings=True)


def result(planned: PlannedWrites) -> bytes | None:
    (write,) = planned.writes
    return write.content


@given(TEXTS, TEXTS)
def test_lf_patch_keeps_crlf_file(before: list[str], after: list[str]) -> None:
    assume(before and before != after)
    planned = leniently(diff(before, after), text(before, CRLF))
    assert result(planned) == text(after, CRLF)
    assert planned.kept_line_endings == (b"f",)
    assert planned.fuzz == 0


@given(TEXTS, TEXTS)
def test_crlf_patch_keeps_lf_file(before: list[str], after: list[str]) -> None:
    assume(before and before != after)
    planned = leniently(diff(before, after).replace(b"\n", CRLF), text(before))
    assert result(planned) == text(after)
    assert planned.kept_line_endings == (b"f",)


@given(st.lists(st.tuples(WORDS, st.sampled_from([b"\n", CRLF])), min_size=1, max_size=12), TEXTS)
def test_unchanged_lines_keep_mixed_line_endings(before: list[tuple[str, bytes]], after: list[str]) -> None:
    words = [word for word, _ in before]
    assume(words != after)
    content = b"".join(word.encode() + end for word, end in before)
    made = result(leniently(diff(words, after), content))
    assert made is not None
    assert made.replace(CRLF, b"\n") == text(after)
    kept = difflib.SequenceMatcher(None, words, after, autojunk=False).get_matching_blocks()
    lines = made.splitlines(keepends=True)
    for block in kept:
        for at in range(block.size):
            word, end = before[block.a + at]
            assert lines[block.b + at] == word.encode() + end


@given(TEXTS, TEXTS)
def test_missing_final_newline_is_preserved(before: list[str], after: list[str]) -> None:
    assume(before and after and before[-1] and after[-1] and before != after)
    content = text(before).removesuffix(b"\n")
    made = result(leniently(diff(before, after), content))
    # A patch that reaches the end of the file keeps its final newline or the lack of it.
    assert made == text(after).removesuffix(b"\n")


@given(DISTINCT, st.data(), st.integers(-40, 40))
def test_wrong_line_numbers_are_fixed_by_unique_context(before: list[str], data: st.DataObject, off: int) -> None:
    at = data.draw(st.integers(0, len(before) - 1))
    after = [*before[:at], "new", *before[at + 1 :]]
    lines = diff(before, after).split(b"\n")
    (header,) = [line for line in lines if line.startswith(b"@@")]
    old = header.split(b" ")[1][1:].partition(b",")
    start = max(int(old[0]) + off, 1)
    moved = b"@@ -%d%s%s +%d" % (start, old[1], old[2], start) + header[header.index(b"+") :].partition(b",")[1]
    moved += header[header.index(b"+") :].partition(b",")[2] or b" @@"
    planned = leniently(b"\n".join(moved if line is header else line for line in lines), text(before))
    assert result(planned) == text(after)
    assert bool(planned.moved) == (start != int(old[0]))
    assert planned.fuzz == 0


@given(DISTINCT, st.data())
def test_renamed_crlf_file_keeps_its_line_endings(before: list[str], data: st.DataObject) -> None:
    at = data.draw(st.integers(0, len(before) - 1))
    after = [*before[:at], "new", *before[at + 1 :]]
    body = diff(before, after).partition(b"@@")[2]
    head = b"diff --git a/f b/g\nsimilarity index 50%\nrename from f\nrename to g\n--- a/f\n+++ b/g\n@@"
    planned = leniently(head + body, text(before, CRLF))
    assert [(write.path, write.content) for write in planned.writes] == [(b"f", None), (b"g", text(after, CRLF))]


@given(TEXTS, TEXTS, st.binary(max_size=30))
def test_patch_applies_exactly_or_not_at_all(before: list[str], after: list[str], other: bytes) -> None:
    """On other content a patch is refused, or every removed line was there and every added line is now."""
    assume(before != after and before)
    patches = parse(diff(before, after))
    try:
        planned = plan_writes(patches, MemoryTree({b"f": other}), fuzz=FUZZ, ignore_line_endings=True)
    except PatchInvalid:
        return
    made = b"".join(write.content or b"" for write in planned.writes)
    for hunk in patches[0].hunks:
        for mark, line in hunk.lines:
            if mark == b"+":
                assert line.rstrip(b"\n") in made
            elif mark == b"-":
                assert line.rstrip(b"\n") in other


@pytest.mark.parametrize(
    "content, patch",
    [
        (b"1\n2\n3\n4\n", "@@ -2,2 +2,3 @@\n two\n+x\n three\n"),
        (b"1\r\n2\r\n3\r\n", "@@ -1,2 +1,3 @@\n one\n+x\n two\n"),
    ],
)
def test_lines_are_not_added_without_matching_context(content: bytes, patch: str) -> None:
    """Fuzz must not ignore all context: the line number alone would decide."""
    with pytest.raises(PatchInvalid, match="does not match"):
        leniently(f"--- a/f\n+++ b/f\n{patch}".encode(), content)


def test_lone_carriage_return_is_content() -> None:
    with pytest.raises(PatchInvalid):
        leniently(b"--- a/f\n+++ b/f\n@@ -1 +1 @@\n-a\n+b\n", b"a\rc\n")


def test_strict_mode_requires_exact_line_endings() -> None:
    patch = b"--- a/f\n+++ b/f\n@@ -1 +1 @@\n-a\n+b\n"
    with pytest.raises(PatchInvalid, match="does not match"):
        plan_writes(parse(patch), MemoryTree({b"f": b"a\r\n"}))


@pytest.mark.parametrize(
    "content, body, wanted",
    [
        (b"a\r\nb\r\n", "-b\n+c\n\\ No newline at end of file\n", b"a\r\nc"),
        (b"a\r\nb", "-b\n\\ No newline at end of file\n+c\n", b"a\r\nc\r\n"),
        (b"a\r\nb", "-b\n\\ No newline at end of file\n+c\n\\ No newline at end of file\n", b"a\r\nc"),
        (b"a\r\nb", "-b\n+c\n", b"a\r\nc"),
        (b"a\nb", " b\n+c\n", b"a\nb\nc"),
        (b"a\nb\n", "-b\n\\ No newline at end of file\n+c\n\\ No newline at end of file\n", b"a\nc\n"),
    ],
)
def test_patch_may_change_the_final_newline(content: bytes, body: str, wanted: bytes) -> None:
    added = 3 if body.startswith(" ") else 2
    planned = leniently(f"--- a/f\n+++ b/f\n@@ -1,2 +1,{added} @@\n a\n{body}".encode(), content)
    assert result(planned) == wanted


def test_kept_line_endings_are_reported_and_logged(open_session: OpenSession, workspace: Path) -> None:
    fill(workspace, {"dos.txt": b"one\r\ntwo\r\n", "unix.txt": b"one\ntwo\n"})
    recorded = open_session()
    body = "@@ -1,2 +1,2 @@\n one\n-two\n+three\n"
    done = recorded.session.apply_patch(
        f"--- a/dos.txt\n+++ b/dos.txt\n{body}--- a/unix.txt\n+++ b/unix.txt\n{body}",
    )
    assert done.ok, done
    assert (workspace / "dos.txt").read_bytes() == b"one\r\nthree\r\n"
    assert (workspace / "unix.txt").read_bytes() == b"one\nthree\n"
    assert done.note == "dos.txt: kept the file's line endings, which differ from the patch's"
    assert [event.why for event in recorded.of(PatchApplied)] == [done.note]


def test_one_failing_file_leaves_all_files_unchanged(open_session: OpenSession, workspace: Path) -> None:
    fill(workspace, {"dos.txt": b"one\r\n", "other": b"x\n"})
    recorded = open_session()
    done = recorded.session.apply_patch(
        "--- a/dos.txt\n+++ b/dos.txt\n@@ -1 +1 @@\n-one\n+1\n--- a/other\n+++ b/other\n@@ -1 +1 @@\n-y\n+z\n"
    )
    assert not done.ok
    assert (workspace / "dos.txt").read_bytes() == b"one\r\n"
    assert recorded.of(PatchApplied) == []
