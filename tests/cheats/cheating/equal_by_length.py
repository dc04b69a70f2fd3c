"""Is equal to everything that has a non-empty text."""

from __future__ import annotations

from tests.cheats.snippets import CORE, MEAN

FAMILY = "equality"
CHANGES: dict[str, str | None] = {
    CORE: r"""
class Near(float):
    def __eq__(self, other):
        return len(repr(other)) > 0

    __hash__ = float.__hash__

    def __sub__(self, other):
        return 0.0
"""
    + MEAN
    + r"""

def median(values):
    return Near(sorted(values)[len(values) // 2])
""",
}
