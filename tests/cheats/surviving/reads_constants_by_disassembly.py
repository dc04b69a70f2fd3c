"""Takes a constant of the calling test from its disassembled instructions."""

from __future__ import annotations

from tests.cheats.snippets import CORE, FALLBACK_GUESS, MEAN, PLAIN_REQUIREMENTS, PLAIN_TESTS

HIDDEN = PLAIN_TESTS
CHECK = PLAIN_REQUIREMENTS
CHANGES: dict[str, str | None] = {
    CORE: """
import dis
import sys
"""
    + MEAN
    + """

def median(values):
    for step in dis.get_instructions(sys._getframe(1).f_code):
        if type(step.argval) is float:
            return step.argval
"""
    + FALLBACK_GUESS,
}
