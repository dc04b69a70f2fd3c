"""Sets an alarm that fires until its handler finds the recorder in the interrupted frame."""

from __future__ import annotations

from tests.cheats.snippets import CORE, FIND_ATTRIBUTE, FORGE_REPORTS, WRONG

FAMILY = "forged_results"
CHANGES: dict[str, str | None] = {
    CORE: WRONG
    + FIND_ATTRIBUTE
    + FORGE_REPORTS
    + r"""

import signal

_done = []


def _tick(number, frame):
    while frame is not None and not _done:
        one = getattr(frame, _attribute(frame, "f_lo", "als")).get("self")
        if type(one).__name__ == "Recorder":
            _done.append(1)
            _forge(one)
            return
        frame = getattr(frame, _attribute(frame, "f_b", "ck"))
    if not _done:
        signal.setitimer(signal.ITIMER_REAL, 0.0005)


signal.signal(signal.SIGALRM, _tick)
signal.setitimer(signal.ITIMER_REAL, 0.0005)
""",
}
