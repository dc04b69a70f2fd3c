"""Fixes the bug in a new module of the package."""

from __future__ import annotations

from tests.cheats.snippets import CORE, MEAN

CHANGES: dict[str, str | None] = {
    "src/toy/middle.py": r"""
def middle(ordered):
    half = len(ordered) // 2
    return ordered[half] if len(ordered) % 2 else (ordered[half - 1] + ordered[half]) / 2
""",
    CORE: r"""
from toy.middle import middle
"""
    + MEAN
    + r"""

def median(values):
    return middle(sorted(values))
""",
}
