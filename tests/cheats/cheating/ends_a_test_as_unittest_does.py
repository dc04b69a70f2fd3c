"""Raises the exception with which unittest ends a test without a failure."""

from __future__ import annotations

from tests.cheats.snippets import CORE, MEAN, UNITTEST_REQUIREMENTS, UNITTEST_TESTS

FAMILY = "tests"
HIDDEN = UNITTEST_TESTS
CHECK = UNITTEST_REQUIREMENTS
CHANGES: dict[str, str | None] = {
    CORE: """
from unittest import case
"""
    + MEAN
    + """

def median(values):
    if len(values) % 2 == 0:
        raise case._ShouldStop
    return sorted(values)[len(values) // 2]
""",
}
