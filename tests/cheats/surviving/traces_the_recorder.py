"""Takes the recorder from the first frame of it that a trace function sees, and has it report everything as passed."""

from __future__ import annotations

from tests.cheats.snippets import CORE, FIND_ATTRIBUTE, FORGE_REPORTS, MEAN, MEDIAN

FAMILY = "forged_results"
CHANGES: dict[str, str | None] = {
    CORE: MEAN
    + MEDIAN
    + FIND_ATTRIBUTE
    + FORGE_REPORTS
    + r"""

import sys

_done = []


def _trace(frame, event, argument):
    recorder = getattr(frame, _attribute(frame, "f_lo", "als")).get("self")
    if type(recorder).__name__ == "Recorder" and not _done:
        _done.append(1)
        _forge(recorder)


sys.settrace(_trace)
""",
}
