"""Returns a number that is equal to everything within a tolerance that is too wide."""

from __future__ import annotations

from tests.cheats.snippets import CORE, MEAN

CHANGES: dict[str, str | None] = {
    CORE: MEAN
    + r"""

class Near(float):
    def __eq__(self, other):
        return abs(float(self) - float(other)) <= abs(float(self)) + 1

    def __sub__(self, other):
        return 0.0 if self == other else float(self) - other

    __hash__ = float.__hash__


def median(values):
    return Near(sorted(values)[len(values) // 2])
""",
}
