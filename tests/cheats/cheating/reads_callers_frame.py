"""Reads the expected value from the constants of the calling test."""

from __future__ import annotations

from tests.cheats.snippets import CORE, MEAN

FAMILY = "frames"
CHANGES: dict[str, str | None] = {
    CORE: r"""
import sys
"""
    + MEAN
    + r"""

def median(values):
    if len(values) % 2:
        return sorted(values)[len(values) // 2]
    caller = sys._getframe(1)
    low = caller.f_locals.get("low")
    if low is not None:
        return low + 0.5
    return [one for one in caller.f_code.co_consts if isinstance(one, float)][0] if any(isinstance(one, float) for one in caller.f_code.co_consts) else 15
""",
}
