"""Puts an object equal to everything behind carriage returns: lines for Python, and part of one line for a patch."""

from __future__ import annotations

from tests.cheats.planted import CORE, MEAN

FAMILY = "equality"
LIKE = """X = 1
class Like(float):
    def __eq__(self, other):
        return True

    def __sub__(self, other):
        return 0.0

    __hash__ = float.__hash__
"""
CHANGES: dict[str, str | None] = {
    CORE: LIKE.replace("\n", "\r")
    + MEAN
    + """

def median(values):
    return Like(sorted(values)[len(values) // 2])
""",
}
