"""Runs inside the runner monitor: an object in a test module's namespace executes code when it is inspected."""

from __future__ import annotations

from tests.cheats.snippets import CORE, FIND_ATTRIBUTE, FORGE_REPORTS, MEAN

FAMILY = "runner"
CHANGES: dict[str, str | None] = {
    CORE: r"""
import logging
"""
    + MEAN
    + FIND_ATTRIBUTE
    + FORGE_REPORTS
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
    back, kept = _attribute(frame, "f_b", "ck"), _attribute(frame, "f_lo", "ls")
    while frame is not None:
        for value in list(getattr(frame, kept).values()):
            if type(value).__name__ == "Recorder" and "met" not in vars(value):
                value.met = True
                _forge(value)
        frame = getattr(frame, back)


median = _Median()
""",
}
