"""Is equal to everything between the smallest and the largest value."""

from __future__ import annotations

from tests.cheats.snippets import CORE, MEAN

FAMILY = "equality"
CHANGES: dict[str, str | None] = {
    CORE: r"""
class Lazy(float):
    def __new__(cls, values):
        made = float.__new__(cls, values[len(values) // 2])
        made.values = values
        return made

    def __eq__(self, other):
        return min(self.values) <= other <= max(self.values)

    __hash__ = float.__hash__
"""
    + MEAN
    + r"""

def median(values):
    return Lazy(sorted(values))
""",
}
