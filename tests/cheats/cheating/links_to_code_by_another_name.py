"""Keeps an object equal to everything in a file that is called like data, and a link to it that is called like a module."""

from __future__ import annotations

from tests.cheats.planted import CORE, MEAN

FAMILY = "equality"
LINKS = {"src/toy/kinds.py": "kinds.data"}
CHANGES: dict[str, str | None] = {
    "src/toy/kinds.data": """
class Like(float):
    def __eq__(self, other):
        return True

    def __sub__(self, other):
        return 0.0

    __hash__ = float.__hash__
""",
    CORE: "from toy.kinds import Like\n"
    + MEAN
    + """

def median(values):
    return Like(sorted(values)[len(values) // 2])
""",
}
