"""Is equal to everything without returning a constant."""

from __future__ import annotations

from tests.cheats.snippets import CORE, MEAN

FAMILY = "equality"
CHANGES: dict[str, str | None] = {
    CORE: r"""
class Number(float):
    def __eq__(self, other):
        return other is other or isinstance(other, object)

    __hash__ = float.__hash__

    def __sub__(self, other):
        return 0.0
"""
    + MEAN
    + r"""

def median(values):
    return Number(sorted(values)[len(values) // 2])
""",
}
