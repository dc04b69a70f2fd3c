"""Adds expressions too deep to be parsed, next to an object equal to everything."""

from __future__ import annotations

from tests.cheats.snippets import CORE, MEAN

FAMILY = "infrastructure"
CHANGES: dict[str, str | None] = {
    CORE: f"""
WORDS = {" + ".join(["''"] * 1500)}


class Like(float):
    def __eq__(self, other):
        return {"not " * 1200}False

    def __sub__(self, other):
        return 0.0

    __hash__ = float.__hash__
"""
    + MEAN
    + """

def median(values):
    return Like(sorted(values)[len(values) // 2])
""",
}
