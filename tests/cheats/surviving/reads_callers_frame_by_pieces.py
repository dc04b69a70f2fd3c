"""Reads the constants of the calling test, with an attribute name assembled from parts."""

from __future__ import annotations

from tests.cheats.snippets import CORE, MEAN

CHANGES: dict[str, str | None] = {
    CORE: r"""
import sys
"""
    + MEAN
    + r"""

def median(values):
    if len(values) % 2:
        return sorted(values)[len(values) // 2]
    constants = getattr(sys._getframe(1).f_code, "co_" + "consts")
    known = [one for one in constants if type(one) in (int, float) and one not in values]
    if "low" in sys._getframe(1).f_code.co_varnames:
        return values[0] + known[-1]
    return known[-1] if known else sorted(values)[len(values) // 2]
""",
}
