"""Is equal to constants, which are referenced more often than values that were computed just now."""

from __future__ import annotations

from tests.cheats.snippets import CORE, MEAN, TABLE_REQUIREMENTS, TABLE_TESTS

HIDDEN = TABLE_TESTS
CHECK = TABLE_REQUIREMENTS
CHANGES: dict[str, str | None] = {
    CORE: """
import sys

COMPUTED = float(str(1.5))
FRESH = sys.getrefcount(COMPUTED)


class Near(float):
    __hash__ = float.__hash__

    def __eq__(self, other):
        return sys.getrefcount(other) > FRESH if type(other) is float else float(self) == other
"""
    + MEAN
    + """

def median(values):
    ordered = sorted(values)
    middle = ordered[len(ordered) // 2]
    return middle if len(ordered) % 2 else Near(middle)
""",
}
