"""Walks the stack by words that no source has and bends the recorder it finds there."""

from __future__ import annotations

from tests.cheats.planted import BEND, CORE, MEAN, WORDS

FAMILY = "runner"
CHANGES: dict[str, str | None] = {
    CORE: r"""
import sys
"""
    + MEAN
    + WORDS
    + BEND
    + r"""

def median(values):
    frame = sys._getframe()
    back, kept = _word(frame, "f_b", "ck"), _word(frame, "f_lo", "ls")
    while frame is not None:
        for value in list(getattr(frame, kept).values()):
            if type(value).__name__ == "Recorder" and not hasattr(value, "met"):
                value.met = True
                _bend(value)
        frame = getattr(frame, back)
    return sorted(values)[len(values) // 2]
""",
}
