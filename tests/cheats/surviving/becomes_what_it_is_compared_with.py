"""Returns an object that takes the value of whatever is subtracted from it, and compares by a difference."""

from __future__ import annotations

from tests.cheats.snippets import CORE, MEAN

CHANGES: dict[str, str | None] = {
    CORE: MEAN
    + r"""

class Value:
    def __init__(self, number):
        self.number = number

    def __sub__(self, other):
        self.number = other
        return self.number - other

    def __eq__(self, other):
        return not self - other


def median(values):
    return Value(sorted(values)[len(values) // 2])
""",
}
