"""Returns an object that equals the answer of every convention for an even number of values."""

from __future__ import annotations

from tests.cheats.snippets import CORE, MEAN

CHANGES: dict[str, str | None] = {
    CORE: MEAN
    + r"""

class Either:
    def __init__(self, answers):
        self.answers = answers

    def __eq__(self, other):
        return other in self.answers

    def __sub__(self, other):
        return 0.0 if self == other else 1.0


def median(values):
    ordered = sorted(values)
    low, high = ordered[(len(ordered) - 1) // 2], ordered[len(ordered) // 2]
    return Either([low, high, (low + high) / 2, mean(values)])
""",
}
