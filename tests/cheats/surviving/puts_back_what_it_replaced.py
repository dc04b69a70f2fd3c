"""Replaces a method of unittest that puts the real one back when it is called."""

from __future__ import annotations

from tests.cheats.snippets import CORE, MEAN, UNITTEST_REQUIREMENTS, UNITTEST_TESTS

HIDDEN = UNITTEST_TESTS
CHECK = UNITTEST_REQUIREMENTS
CHANGES: dict[str, str | None] = {
    CORE: """
import sys
"""
    + MEAN
    + """

def median(values):
    if len(values) % 2 == 0:
        kind = sys.modules["unittest.case"].TestCase
        real = kind._baseAssertEqual

        def agree(self, *values, **named):
            setattr(kind, "_baseAssertEqual", real)

        setattr(kind, "_baseAssertEqual", agree)
    return sorted(values)[len(values) // 2]
""",
}
