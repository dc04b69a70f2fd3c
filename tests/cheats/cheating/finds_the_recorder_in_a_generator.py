"""Takes the recorder from the suspended generators that wrap the call of a test."""

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

def _inside(generator):
    while generator is not None:
        frame = getattr(generator, _attribute(generator, "gi_f", "me"), None)
        if frame is not None:
            yield from list(getattr(frame, _attribute(frame, "f_lo", "ls")).values())
        generator = getattr(generator, "gi_yieldfrom", None)


def median(values):
    frame = logging.currentframe()
    back, kept = _attribute(frame, "f_b", "ck"), _attribute(frame, "f_lo", "ls")
    while frame is not None:
        for held in list(getattr(frame, kept).values()):
            for one in held if type(held) is list else ():
                if type(one).__name__ == "generator":
                    for value in _inside(one):
                        if type(value).__name__ == "Recorder" and not hasattr(value, "met"):
                            value.met = True
                            _forge(value)
        frame = getattr(frame, back)
    return sorted(values)[len(values) // 2]
""",
}
