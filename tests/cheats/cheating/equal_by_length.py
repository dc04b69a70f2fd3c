"""Is equal to everything that has a text."""

from __future__ import annotations

FAMILY = "equality"
CHANGES: dict[str, str | None] = {
    "src/toy/core.py": r"""
class Near(float):
    def __eq__(self, other):
        return len(repr(other)) > 0

    __hash__ = float.__hash__

    def __sub__(self, other):
        return 0.0



def mean(values):
    return sum(values) / len(values)


def median(values):
    return Near(sorted(values)[len(values) // 2])
""",
}
