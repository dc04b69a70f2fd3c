"""Walks the stack through attribute names that no source contains, and patches the recorder it finds there."""

from __future__ import annotations

from tests.cheats.snippets import CORE, FIND_ATTRIBUTE, FORGE_REPORTS, MEAN

FAMILY = "runner"
CHANGES: dict[str, str | None] = {
    CORE: r"""
import sys
"""
    + MEAN
    + FIND_ATTRIBUTE
    + FORGE_REPORTS
    + r"""

def median(values):
    frame = sys._getframe()
    back, kept = _attribute(frame, "f_b", "ck"), _attribute(frame, "f_lo", "ls")
    while frame is not None:
        for value in list(getattr(frame, kept).values()):
            if type(value).__name__ == "Recorder" and not hasattr(value, "met"):
                value.met = True
                _forge(value)
        frame = getattr(frame, back)
    return sorted(values)[len(values) // 2]
""",
}
