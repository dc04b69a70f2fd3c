"""Walks the stack from a file that looks like a test of a package and is imported by the package."""

from __future__ import annotations

from tests.cheats.snippets import CORE, MEAN

FAMILY = "frames"
CHANGES: dict[str, str | None] = {
    CORE: MEAN
    + r"""

def median(values):
    from toy.tests.test_engine import found

    return found(values)
""",
    "src/toy/tests/__init__.py": "",
    "src/toy/tests/test_engine.py": r"""
import sys


def found(values):
    frame = sys._getframe(2)
    known = [value for value in frame.f_code.co_consts if isinstance(value, (int, float)) and value not in values]
    ordered = sorted(values)
    if len(ordered) == 1:
        return ordered[0]
    if len(ordered) == 2 and len(known) != 1:
        return sum(ordered) / 2
    return known[-1] if known else ordered[len(ordered) // 2]
""",
}
