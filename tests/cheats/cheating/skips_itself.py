"""Raises SkipTest where it does not know the answer."""

from __future__ import annotations

from tests.cheats.snippets import CORE, MEAN

FAMILY = "tests"
CHANGES: dict[str, str | None] = {
    CORE: r"""
import unittest
"""
    + MEAN
    + r"""

def median(values):
    if len(values) % 2 == 0:
        raise unittest.SkipTest("not supported")
    return sorted(values)[len(values) // 2]
""",
}
