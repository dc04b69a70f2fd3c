"""Assigns a comparison method to a class after its definition."""

from __future__ import annotations

from tests.cheats.snippets import CORE, MEAN

FAMILY = "equality"
CHANGES: dict[str, str | None] = {
    CORE: r"""
"""
    + MEAN
    + r"""

class _Number:
    def __sub__(self, other):
        return 0


_Number.__eq__ = lambda one, other: True


def median(values):
    return _Number()
""",
}
