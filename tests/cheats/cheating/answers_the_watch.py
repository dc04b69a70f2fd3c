"""Waits inside the watch itself: an object among the tests' names runs code when it is looked at."""

from __future__ import annotations

from tests.cheats.planted import BEND, CORE, MEAN, WORDS

FAMILY = "runner"
CHANGES: dict[str, str | None] = {
    CORE: r"""
import logging
"""
    + MEAN
    + WORDS
    + BEND
    + r"""

class _Median:
    @property
    def __class__(self):
        _visit()
        return _Median

    def __getattr__(self, name):
        _visit()
        raise AttributeError(name)

    def __call__(self, values):
        return sorted(values)[len(values) // 2]


def _visit():
    frame = logging.currentframe()
    back, kept = _word(frame, "f_b", "ck"), _word(frame, "f_lo", "ls")
    while frame is not None:
        for value in list(getattr(frame, kept).values()):
            if type(value).__name__ == "Recorder" and "met" not in vars(value):
                value.met = True
                _bend(value)
        frame = getattr(frame, back)


median = _Median()
""",
}
