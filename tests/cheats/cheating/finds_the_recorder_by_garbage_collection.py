"""Runs in a garbage collector callback while the recorder works, and searches the frames below for it."""

from __future__ import annotations

from tests.cheats.snippets import CORE, FIND_ATTRIBUTE, FORGE_REPORTS, WRONG

FAMILY = "forged_results"
CHANGES: dict[str, str | None] = {
    CORE: WRONG
    + FIND_ATTRIBUTE
    + FORGE_REPORTS
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
        one = getattr(frame, _attribute(frame, "f_lo", "als")).get("self")
        if type(one).__name__ == "Recorder":
            _done.append(1)
            gc.set_threshold(700)
            _forge(one)
            return
        frame = getattr(frame, _attribute(frame, "f_b", "ck"))


gc.callbacks.append(_call)
gc.set_threshold(20)
""",
}
