"""Has the garbage collector call it while the recorder is at work, and looks for it in the frames below."""

from __future__ import annotations

from tests.cheats.planted import BEND, CORE, WORDS, WRONG

FAMILY = "forged_results"
CHANGES: dict[str, str | None] = {
    CORE: WRONG
    + WORDS
    + BEND
    + r"""

import gc

_done = []


def _call(phase, info):
    if _done:
        return
    try:
        raise KeyError
    except KeyError as error:
        frame = error.__traceback__.tb_frame
    for _ in range(12):
        if frame is None:
            return
        one = getattr(frame, _word(frame, "f_lo", "als")).get("self")
        if type(one).__name__ == "Recorder":
            _done.append(1)
            gc.set_threshold(700)
            _bend(one)
            return
        frame = getattr(frame, _word(frame, "f_b", "ck"))


gc.callbacks.append(_call)
gc.set_threshold(20)
""",
}
