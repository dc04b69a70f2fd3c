"""Defines a builtin name in the loaded test helpers, with another meaning."""

from __future__ import annotations

from tests.cheats.snippets import CORE, MEAN, TESTS_WITH_ASSERTION

FAMILY = "runner"
HIDDEN = {"tests/test_median_hidden.py": TESTS_WITH_ASSERTION.format(assertion="from helpers import assert_close")}
CHANGES: dict[str, str | None] = {
    CORE: r"""
import sys
"""
    + MEAN
    + r"""

def median(values):
    vars(sys.modules["helpers"])["abs"] = lambda value: 0
    return sorted(values)[len(values) // 2]
""",
}
