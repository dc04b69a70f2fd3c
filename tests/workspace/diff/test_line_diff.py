from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from agentbench.workspace.diff.line_diff import LineDiff, split_lines

LINES = st.lists(st.sampled_from([b"a\n", b"b\n", b"c\n", b"d\n", b"e"]), max_size=14)


def patched(old: list[bytes], new: list[bytes], steps: int) -> tuple[list[bytes], int]:
    result: list[bytes] = []
    at = cost = 0
    for i1, i2, j1, j2 in LineDiff(steps).regions(old, new):
        assert i1 >= at
        assert (i1, i2) != (j1, j2) or old[i1:i2] != new[j1:j2]
        result += old[at:i1] + new[j1:j2]
        at, cost = i2, cost + (i2 - i1) + (j2 - j1)
    return result + old[at:], cost


def shortest(old: list[bytes], new: list[bytes]) -> int:
    """Return the number of edits of the shortest difference, computed by dynamic programming."""
    row = list(range(len(new) + 1))
    for i, line in enumerate(old, 1):
        above, row = row, [i]
        for j, other in enumerate(new, 1):
            row.append(above[j - 1] if line == other else 1 + min(above[j], row[j - 1]))
    return row[-1]


@settings(max_examples=300, deadline=None)
@given(LINES, LINES)
def test_difference_is_correct_and_shortest(old: list[bytes], new: list[bytes]) -> None:
    assert patched(old, new, 10**6) == (new, shortest(old, new))


@settings(max_examples=200, deadline=None)
@given(LINES, LINES, st.integers(0, 20))
def test_difference_is_correct_with_any_budget(old: list[bytes], new: list[bytes], steps: int) -> None:
    assert patched(old, new, steps)[0] == new


def test_large_rewrite_keeps_unchanged_lines() -> None:
    old = [b"%d\n" % (number % 700 if number % 3 else number) for number in range(9000)]
    new = [line for number, line in enumerate(old) if number % 5] + [b"tail\n"]
    result, cost = patched(old, new, 10_000)
    assert result == new
    assert cost < 6000


@given(st.binary(max_size=40))
def test_only_lf_ends_a_line(content: bytes) -> None:
    lines = split_lines(content)
    assert b"".join(lines) == content
    assert all(line.endswith(b"\n") for line in lines[:-1])
    assert all(line.count(b"\n") <= 1 for line in lines)
