"""The patches of all steps, applied in order to the base repository, give the final workspace."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentbench.tools import step_diffs
from agentbench.tools.step_diffs import StepDiffs
from agentbench.tree.entry import Entry, FileWrite
from agentbench.tree.memory import MemoryTree
from agentbench.workspace.diff.apply import plan_writes
from agentbench.workspace.diff.compare import compare
from agentbench.workspace.diff.extract import extract
from agentbench.workspace.diff.parse import parse

pytestmark = [pytest.mark.component, pytest.mark.req("E-05a", "E-09c")]

LINES = st.lists(st.sampled_from(["a", "b", "c", "", "é", "@@ -1 +1 @@", "-"]), max_size=8)
TEXTS = st.builds(lambda lines, end: ("\n".join(lines) + end).encode(), LINES, st.sampled_from(["", "\n"]))
INSIDE, OUTSIDE = [b"a", b"b/c"], [b"/etc/passwd", b"../../x"]


def states_with(targets: list[bytes]) -> st.SearchStrategy[dict[bytes, FileWrite]]:
    files = st.builds(FileWrite, st.just(b""), content=TEXTS, executable=st.booleans())
    links = st.builds(FileWrite, st.just(b""), symlink=st.sampled_from(targets))
    return st.dictionaries(st.sampled_from([b"a", b"b/c", b"b/d", b"e"]), st.one_of(files, links), max_size=4)


def tree_of(state: dict[bytes, FileWrite]) -> MemoryTree:
    return MemoryTree(
        {path: FileWrite(path, file.content, file.symlink, file.executable) for path, file in state.items()}
    )


def render(
    steps: StepDiffs, before: MemoryTree, after: MemoryTree, unreadable: frozenset[bytes] = frozenset()
) -> bytes:
    def read(entry: Entry) -> bytes | None:
        return None if entry.path in unreadable else after.read(entry.path, max_bytes=10**6)

    return steps.render(compare(before.entries(), after.entries()), read)


def apply(patch: bytes, tree: MemoryTree) -> None:
    tree.apply(plan_writes(parse(patch), tree).writes)


@given(base=states_with(INSIDE), states=st.lists(states_with(INSIDE + OUTSIDE), min_size=1, max_size=5))
def test_steps_in_order_give_the_final_patch(
    base: dict[bytes, FileWrite], states: list[dict[bytes, FileWrite]]
) -> None:
    found, replayed = tree_of(base), tree_of(base)
    steps, before = StepDiffs(lambda entry: found.read(entry.path, max_bytes=10**6)), found
    for state in states:
        after = tree_of(state)
        apply(render(steps, before, after), replayed)
        before = after
    assert extract(found, replayed).patch == extract(found, before).patch


@given(
    base=st.dictionaries(st.sampled_from([b"a", b"c", b"e"]), TEXTS, max_size=3),
    states=st.lists(
        st.tuples(
            st.dictionaries(st.sampled_from([b"a", b"c", b"e"]), TEXTS, max_size=3),
            st.frozensets(st.sampled_from([b"a", b"c", b"e"])),
        ),
        min_size=1,
        max_size=6,
    ),
)
def test_steps_apply_after_files_that_could_not_be_read(
    base: dict[bytes, bytes], states: list[tuple[dict[bytes, bytes], frozenset[bytes]]]
) -> None:
    found, replayed = MemoryTree(base), MemoryTree(base)
    steps, before = StepDiffs(lambda entry: found.read(entry.path, max_bytes=10**6)), found
    left_out: set[bytes] = set()
    for state, unreadable in states:
        after = MemoryTree(state)
        changed = {change.path for change in compare(before.entries(), after.entries())}
        left_out = (left_out - changed) | (changed & unreadable & state.keys())
        apply(render(steps, before, after, unreadable), replayed)
        before = after
    differing = {change.path for change in compare(before.entries(), replayed.entries())}
    assert differing <= left_out


def test_long_session_keeps_only_the_last_content(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(step_diffs, "MAX_KEPT", 100)
    steps, before, replayed = StepDiffs(lambda _entry: None), MemoryTree(), MemoryTree()
    for number in range(50):
        after = MemoryTree({b"a": f"{number:040}\n".encode()})
        patch = render(steps, before, after)
        assert patch, number
        apply(patch, replayed)
        before = after
    assert replayed.read(b"a", max_bytes=99) == f"{49:040}\n".encode()


def test_large_file_is_left_out_and_comes_back_when_small() -> None:
    steps = StepDiffs(lambda _entry: None)
    small, large = MemoryTree({b"a": b"1\n"}), MemoryTree({b"a": b"x" * (step_diffs.MAX_DIFFED_FILE + 1)})
    replayed = MemoryTree()
    for before, after in ((MemoryTree(), small), (small, large), (large, MemoryTree({b"a": b"2\n"}))):
        apply(render(steps, before, after), replayed)
    assert replayed.read(b"a", max_bytes=99) == b"2\n"
