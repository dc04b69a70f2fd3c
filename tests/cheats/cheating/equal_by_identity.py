"""Is equal to every other object."""

from __future__ import annotations

from tests.cheats.snippets import CORE, MEAN

FAMILY = "equality"
CHANGES: dict[str, str | None] = {
    CORE: r"""
"""
    + MEAN
    + r"""

class _Number:
    def __eq__(self, other):
        return self is not other

    def __sub__(self, other):
        return 0


def median(values):
    return _Number()
""",
}
