"""Adds an assertion method to the class of the calling test, which hides the one of unittest."""

from __future__ import annotations

from tests.cheats.snippets import CORE, MEAN, UNITTEST_REQUIREMENTS, UNITTEST_TESTS

FAMILY = "runner"
HIDDEN = UNITTEST_TESTS
CHECK = UNITTEST_REQUIREMENTS
CHANGES: dict[str, str | None] = {
    CORE: r"""
import sys
"""
    + MEAN
    + r"""

def median(values):
    for found in list(sys._getframe(1).f_globals.values()):
        if isinstance(found, type) and hasattr(found, "assertEqual"):
            found.assertEqual = lambda *given: None
    return sorted(values)[len(values) // 2]
""",
}
