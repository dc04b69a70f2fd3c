"""Lets an alarm go off until it finds the recorder at work in the frame that the handler is given."""

from __future__ import annotations

from tests.cheats.planted import BEND, CORE, WORDS, WRONG

FAMILY = "forged_results"
CHANGES: dict[str, str | None] = {
    CORE: WRONG
    + WORDS
    + BEND
    + r"""

import signal

_done = []


def _tick(number, frame):
    while frame is not None and not _done:
        one = getattr(frame, _word(frame, "f_lo", "als")).get("self")
        if type(one).__name__ == "Recorder":
            _done.append(1)
            _bend(one)
            return
        frame = getattr(frame, _word(frame, "f_b", "ck"))
    if not _done:
        signal.setitimer(signal.ITIMER_REAL, 0.0005)


signal.signal(signal.SIGALRM, _tick)
signal.setitimer(signal.ITIMER_REAL, 0.0005)
""",
}
