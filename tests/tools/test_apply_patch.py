"""apply_patch changes the workspace completely or not at all."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from pathlib import Path

import pytest

from agentbench.tools.rules import Rules
from agentbench.trace.events import PatchApplied, WorkspaceMutated
from agentbench.tree.entry import Entry
from agentbench.tree.folder import FolderTree
from tests.tools.conftest import OpenSession
from tests.tools.recorded_session import FolderSandbox, fill

pytestmark = [pytest.mark.req("T-03"), pytest.mark.component]

EDIT = "--- a/src/a.py\n+++ b/src/a.py\n@@ -1,2 +1,2 @@\n-one\n+ONE\n two\n"
ADD = "--- /dev/null\n+++ b/new/b.py\n@@ -0,0 +1 @@\n+b\n"
DELETE = "--- a/old\n+++ /dev/null\n@@ -1 +0,0 @@\n-x\n"


def contents(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


@pytest.mark.req("T-01", "E-05a")
def test_patch_is_applied_and_logged_with_digests(open_session: OpenSession, workspace: Path) -> None:
    fill(workspace, {"src/a.py": "one\ntwo\n", "old": "x\n"})
    recorded = open_session()
    result = recorded.session.apply_patch(EDIT + ADD + DELETE)
    assert result.ok, result
    assert result.changed_files == ("new/b.py", "old", "src/a.py")
    assert contents(workspace) == {"src/a.py": b"ONE\ntwo\n", "new/b.py": b"b\n"}
    (applied,) = recorded.of(PatchApplied)
    by_path = {file.path: file for file in applied.files}
    assert {path: file.change for path, file in by_path.items()} == {
        "new/b.py": "added",
        "old": "deleted",
        "src/a.py": "modified",
    }
    assert by_path["src/a.py"].before_sha256 == hashlib.sha256(b"one\ntwo\n").hexdigest()
    assert by_path["src/a.py"].after_sha256 == hashlib.sha256(b"ONE\ntwo\n").hexdigest()
    assert applied.patch.text == EDIT + ADD + DELETE
    assert applied.call_id == "c1"


def test_next_call_sees_the_patched_files(open_session: OpenSession, workspace: Path) -> None:
    fill(workspace, {"src/a.py": "one\ntwo\n", "old": "x\n"})
    recorded = open_session()
    recorded.session.list_files()
    recorded.session.apply_patch(ADD + DELETE)
    assert recorded.session.list_files().stdout == "new/b.py\nsrc/a.py\n"
    assert recorded.session.read_file("new/b.py").stdout == "b\n"
    recorded.session.run("true")
    assert recorded.of(WorkspaceMutated) == []


@pytest.mark.parametrize(
    "patch",
    [
        EDIT + "--- a/missing\n+++ b/missing\n@@ -1 +1 @@\n-a\n+b\n",
        EDIT + "--- a/old\n+++ b/old\n@@ -1 +1 @@\n-other\n+b\n",
        EDIT + "--- /dev/null\n+++ b/../out\n@@ -0,0 +1 @@\n+x\n",
        EDIT + "--- /dev/null\n+++ /etc/out\n@@ -0,0 +1 @@\n+x\n",
        EDIT + "--- /dev/null\n+++ b/.git/hooks/pre-commit\n@@ -0,0 +1 @@\n+x\n",
        EDIT + "--- /dev/null\n+++ b/link/x\n@@ -0,0 +1 @@\n+x\n",
        EDIT + "--- /dev/null\n+++ b/old\n@@ -0,0 +1 @@\n+x\n",
        "no patch at all",
        "@@ -1 +1 @@\n-a\n+b\n",
    ],
)
def test_failing_patch_changes_nothing(open_session: OpenSession, workspace: Path, patch: str) -> None:
    fill(workspace, {"src/a.py": "one\ntwo\n", "old": "x\n"})
    (workspace / "link").symlink_to("/tmp")
    before = contents(workspace)
    recorded = open_session()
    result = recorded.session.apply_patch(patch)
    assert result.error_type == "patch_invalid"
    assert result.error_message
    assert result.changed_files == ()
    assert contents(workspace) == before
    assert recorded.of(PatchApplied) == []


@pytest.mark.req("T-02")
def test_patch_outside_editable_scope_is_refused(open_session: OpenSession, workspace: Path) -> None:
    fill(workspace, {"src/a.py": "one\ntwo\n"})
    session = open_session(Rules(editable_globs=("src/**",))).session
    result = session.apply_patch(EDIT + ADD)
    assert result.error_type == "outside_scope"
    assert result.error_message is not None
    assert "new/b.py" in result.error_message
    assert contents(workspace) == {"src/a.py": b"one\ntwo\n"}
    assert session.apply_patch(EDIT).ok


@pytest.mark.req("T-02")
def test_rename_out_of_scope_is_refused(open_session: OpenSession, workspace: Path) -> None:
    fill(workspace, {"src/a.py": "one\n", "other": "x\n"})
    session = open_session(Rules(editable_globs=("src/**",))).session
    patch = "diff --git a/other b/src/other\nsimilarity index 100%\nrename from other\nrename to src/other\n"
    assert session.apply_patch(patch).error_type == "outside_scope"


def test_read_only_agent_cannot_patch(open_session: OpenSession, workspace: Path) -> None:
    fill(workspace, {"src/a.py": "one\ntwo\n"})
    session = open_session(Rules(allow_write=False)).session
    assert session.apply_patch(EDIT).error_type == "outside_scope"


def test_moved_hunks_are_applied_and_reported(open_session: OpenSession, workspace: Path) -> None:
    fill(workspace, {"a": "0\n0\n0\n1\n2\n3\n4\n5\n"})
    recorded = open_session()
    result = recorded.session.apply_patch("--- a/a\n+++ b/a\n@@ -1,5 +1,5 @@\n 1\n 2\n-3\n+three\n 4\n 5\n")
    assert result.ok
    assert "hunk 1 applied at line 4, +3 lines off" in result.note
    fuzzy = recorded.session.apply_patch("--- a/a\n+++ b/a\n@@ -4,5 +4,5 @@\n WRONG\n 2\n-three\n+3\n 4\n 5\n")
    assert fuzzy.ok
    assert "context" in fuzzy.note
    assert [event.fuzz for event in recorded.of(PatchApplied)] == [0, 1]


def test_patch_does_not_scan_the_tree(
    open_session: OpenSession, workspace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(workspace, {"src/a.py": "one\ntwo\n"})
    session = open_session().session
    session.list_files()

    def walk(tree: FolderTree) -> Iterator[Entry]:
        raise AssertionError("the whole tree is walked")

    monkeypatch.setattr(FolderTree, "entries", walk)
    assert session.apply_patch(EDIT).ok


class Listed:
    """A tree that can only be listed and read, like a remote one. Counts its listings."""

    def __init__(self, folder: Path) -> None:
        self._inner = FolderTree.at(folder)
        self.listed = 0

    def entries(self) -> Iterator[Entry]:
        self.listed += 1
        return self._inner.entries()

    def read(self, path: bytes, *, max_bytes: int) -> bytes:
        return self._inner.read(path, max_bytes=max_bytes)


def test_remote_tree_is_listed_once_for_patches(
    open_session: OpenSession, folder_sandbox: FolderSandbox, workspace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(workspace, {"src/a.py": "one\ntwo\n", "old": "x\n"})
    tree = Listed(workspace)
    monkeypatch.setattr(folder_sandbox, "tree", lambda: tree)
    session = open_session().session
    assert session.apply_patch(EDIT + ADD).ok
    assert not session.apply_patch(ADD).ok
    assert not session.apply_patch("--- /dev/null\n+++ b/src\n@@ -0,0 +1 @@\n+b\n").ok
    assert not session.apply_patch("--- /dev/null\n+++ b/old/x\n@@ -0,0 +1 @@\n+b\n").ok
    assert session.apply_patch(DELETE).ok
    assert session.apply_patch("--- /dev/null\n+++ b/old/x\n@@ -0,0 +1 @@\n+b\n").ok
    assert contents(workspace) == {"src/a.py": b"ONE\ntwo\n", "new/b.py": b"b\n", "old/x": b"b\n"}
    assert tree.listed == 1


@pytest.mark.parametrize(
    "counts", ["-1,2 +1,2", "-1 +1", "-1,9 +1,7", "-1,1 +1,3"], ids=["right", "short", "long", "mixed"]
)
@pytest.mark.parametrize("end", ["", "\n", "\n\n"])
def test_wrong_hunk_counts_are_corrected(open_session: OpenSession, workspace: Path, counts: str, end: str) -> None:
    fill(workspace, {"src/a.py": "one\ntwo\nthree\n", "old": "x\n"})
    result = open_session().session.apply_patch(EDIT.replace("-1,2 +1,2", counts) + DELETE.rstrip("\n") + "\n" + end)
    assert result.ok, result
    assert contents(workspace) == {"src/a.py": b"ONE\ntwo\nthree\n"}
    assert ("counts" in result.note) == (counts != "-1,2 +1,2")


def test_recounting_does_not_make_a_wrong_hunk_fit(open_session: OpenSession, workspace: Path) -> None:
    fill(workspace, {"a": "1\n2\n3\n"})
    result = open_session().session.apply_patch("--- a/a\n+++ b/a\n@@ -1,7 +1,9 @@\n x\n-y\n+z\n")
    assert result.error_type == "patch_invalid"
    assert contents(workspace) == {"a": b"1\n2\n3\n"}


def test_submitted_patch_is_applied_strictly(open_session: OpenSession, workspace: Path) -> None:
    fill(workspace, {"a": "0\n1\n2\n"})
    session = open_session().session
    assert session.submit_patch(b"--- a/a\n+++ b/a\n@@ -1,9 +1 @@\n 1\n-2\n+3\n").error_type == "patch_invalid"
    assert (
        session.submit_patch(b"--- a/a\n+++ b/a\n@@ -1,3 +1,3 @@\n WRONG\n 1\n-2\n+3\n").error_type == "patch_invalid"
    )
    assert session.submit_patch(b"--- a/a\n+++ b/a\n@@ -2,2 +2,2 @@\n 1\n-2\n+3\n").ok
