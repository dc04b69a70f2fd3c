from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentbench.tree.entry import FileWrite
from agentbench.tree.limits import TreeTooLarge
from agentbench.tree.memory import MemoryTree
from agentbench.workspace.diff.apply import PatchedTree, plan_writes
from agentbench.workspace.diff.extract import extract
from agentbench.workspace.diff.parse import parse

PATHS = st.sampled_from([b"a", b"a/b", b"a/b/c", b"a.b", b"d/e", b"f"])
TREES = st.dictionaries(PATHS, st.binary(max_size=4), max_size=5).map(
    lambda files: {path: files[path] for path in files if not any(other.startswith(path + b"/") for other in files)}
)


@given(TREES, TREES)
def test_it_shows_what_the_writes_would_make(before: dict[bytes, bytes], after: dict[bytes, bytes]) -> None:
    base = MemoryTree(before)
    tree = PatchedTree(base, plan_writes(parse(extract(base, MemoryTree(after)).patch), base).writes)
    assert list(tree.entries()) == list(MemoryTree(after).entries())
    assert {entry.path: tree.read(entry.path, max_bytes=10) for entry in tree.entries()} == after


def test_a_file_in_the_place_of_a_folder_hides_what_was_below() -> None:
    tree = PatchedTree(MemoryTree({b"d/x": b"1", b"d.x": b"2"}), [FileWrite(b"d", content=b"3")])
    assert [entry.path for entry in tree.entries()] == [b"d", b"d.x"]


def test_deleted_and_too_large_files_are_refused() -> None:
    tree = PatchedTree(MemoryTree({b"x": b"1"}), [FileWrite(b"x"), FileWrite(b"y", content=b"22")])
    with pytest.raises(FileNotFoundError):
        tree.read(b"x", max_bytes=9)
    with pytest.raises(TreeTooLarge):
        tree.read(b"y", max_bytes=1)
