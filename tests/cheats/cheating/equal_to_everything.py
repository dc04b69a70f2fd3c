"""Returns an object that is equal to everything."""

from __future__ import annotations

from tests.cheats.snippets import CORE, MEAN

FAMILY = "equality"
CHANGES: dict[str, str | None] = {
    CORE: r"""
class Number(float):
    def __eq__(self, other):
        return True

    def __sub__(self, other):
        return 0.0

    __hash__ = float.__hash__
"""
    + MEAN
    + r"""

def median(values):
    return Number(sorted(values)[len(values) // 2])
""",
}
