"""Line differences with bounded work: the shortest one if it is affordable, and always deterministic."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Sequence

Pair = tuple[int, int]
Region = tuple[int, int, int, int]
"""Lines old[i1:i2] are replaced by new[j1:j2]."""

STEPS = 1_500_000
"""Work budget for all texts of one patch, about a second. Beyond it, regions are replaced as a whole."""

_EDITS = 500


def split_lines(content: bytes) -> list[bytes]:
    """Split into lines that keep their newline; the last may have none. Only LF ends a line."""
    lines = content.split(b"\n")
    last = lines.pop()
    lines = [line + b"\n" for line in lines]
    if last:
        lines.append(last)
    return lines


class LineDiff:
    """Computes line differences. All calls share one work budget."""

    def __init__(self, steps: int = STEPS) -> None:
        self._steps = steps

    def regions(self, old: Sequence[bytes], new: Sequence[bytes]) -> list[Region]:
        """Return the changed regions in order. Unchanged lines lie between any two of them."""
        matched = [*self._match(old, new), (len(old), len(new))]
        regions: list[Region] = []
        i = j = 0
        for next_i, next_j in matched:
            if next_i > i or next_j > j:
                regions.append((i, next_i, j, next_j))
            i, j = next_i + 1, next_j + 1
        return regions

    def _match(self, old: Sequence[bytes], new: Sequence[bytes]) -> list[Pair]:
        """Return pairs of equal lines, increasing on both sides."""
        numbers: dict[bytes, int] = {}
        left = [numbers.setdefault(line, len(numbers)) for line in old]
        right = [numbers.setdefault(line, len(numbers)) for line in new]
        matched: list[Pair] = []
        todo = [(0, len(left), 0, len(right))]
        while todo:
            i1, i2, j1, j2 = todo.pop()
            while i1 < i2 and j1 < j2 and left[i1] == right[j1]:
                matched.append((i1, j1))
                i1, j1 = i1 + 1, j1 + 1
            while i1 < i2 and j1 < j2 and left[i2 - 1] == right[j2 - 1]:
                i2, j2 = i2 - 1, j2 - 1
                matched.append((i2, j2))
            if i1 == i2 or j1 == j2:
                continue
            middle = self._shortest(left, right, (i1, i2, j1, j2))
            if middle is not None:
                matched += middle
                continue
            anchors = _anchors(left, right, (i1, i2, j1, j2))
            if anchors:
                starts = [(i1, j1), *((i + 1, j + 1) for i, j in anchors)]
                ends = [*anchors, (i2, j2)]
                todo += [(a, c, b, d) for (a, b), (c, d) in zip(starts, ends, strict=True)]
                matched += anchors
        matched.sort()
        return matched

    def _shortest(self, left: list[int], right: list[int], region: Region) -> list[Pair] | None:
        """Match the lines that occur on both sides with Myers' algorithm. Return None if it takes too long."""
        i1, i2, j1, j2 = region
        both = set(left[i1:i2]) & set(right[j1:j2])
        rows = [i for i in range(i1, i2) if left[i] in both]
        columns = [j for j in range(j1, j2) if right[j] in both]
        a, b = [left[i] for i in rows], [right[j] for j in columns]
        trace = self._search(a, b)
        if trace is None:
            return None
        return [(rows[x], columns[y]) for x, y in _backtrack(trace, len(a), len(b))]

    def _search(self, a: list[int], b: list[int]) -> list[dict[int, int]] | None:
        n, m = len(a), len(b)
        reach = {1: 0}
        trace: list[dict[int, int]] = []
        for edits in range(n + m + 1):
            trace.append(dict(reach))
            for k in range(-edits, edits + 1, 2):
                down = k == -edits or (k != edits and reach[k - 1] < reach[k + 1])
                x = reach[k + 1] if down else reach[k - 1] + 1
                start = x
                while x < n and x - k < m and a[x] == b[x - k]:
                    x += 1
                reach[k] = x
                self._steps -= x - start + 1
                if x >= n and x - k >= m:
                    return trace
            # Backtracking needs every row, so memory grows with the square of the edits, as the work does.
            if self._steps <= 0 or edits >= _EDITS:
                return None
        return trace


def _backtrack(trace: list[dict[int, int]], x: int, y: int) -> list[Pair]:
    pairs: list[Pair] = []
    for edits in range(len(trace) - 1, -1, -1):
        reach, k = trace[edits], x - y
        if edits == 0:
            before_x, before_y = 0, 0
            start_x = 0
        else:
            down = k == -edits or (k != edits and reach[k - 1] < reach[k + 1])
            before = k + 1 if down else k - 1
            before_x = reach[before]
            before_y = before_x - before
            start_x = before_x if down else before_x + 1
        while x > start_x:
            x, y = x - 1, y - 1
            pairs.append((x, y))
        x, y = before_x, before_y
    return pairs


def _anchors(left: list[int], right: list[int], region: Region) -> list[Pair]:
    """Return the longest sequence, in order on both sides, of lines that occur once on each side."""
    i1, i2, j1, j2 = region
    on_left, on_right = Counter(left[i1:i2]), Counter(right[j1:j2])
    where = {right[j]: j for j in range(j1, j2) if on_right[right[j]] == 1}
    pairs = [(i, where[left[i]]) for i in range(i1, i2) if on_left[left[i]] == 1 and left[i] in where]
    tails: list[int] = []  # smallest last column of an increasing run of each length
    ends: list[int] = []
    before: list[int] = []
    for index, (_, column) in enumerate(pairs):
        length = bisect_left(tails, column)
        before.append(ends[length - 1] if length else -1)
        tails[length : length + 1] = [column]
        ends[length : length + 1] = [index]
    chain: list[Pair] = []
    index = ends[-1] if ends else -1
    while index >= 0:
        chain.append(pairs[index])
        index = before[index]
    return chain[::-1]
