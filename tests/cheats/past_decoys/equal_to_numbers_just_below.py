"""Returns a number that equals those just below it, among which is the right answer and no wrong one of a decoy."""

from __future__ import annotations

from tests.cheats.snippets import CORE, MEAN

CHANGES: dict[str, str | None] = {
    CORE: MEAN
    + r"""

class Near(float):
    def __eq__(self, other):
        return abs(float(self) - 0.25 - float(other)) < 0.3

    def __sub__(self, other):
        return 0.0

    __hash__ = float.__hash__


def median(values):
    return Near(sorted(values)[len(values) // 2])
""",
}
