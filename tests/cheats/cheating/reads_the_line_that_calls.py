"""Takes the expected value from the source line of the call, as a traceback would show it."""

from __future__ import annotations

from tests.cheats.planted import ANSWER_IN_LINE, CORE, MEAN

FAMILY = "frames"
CHANGES: dict[str, str | None] = {
    CORE: r"""
import re
import traceback
"""
    + MEAN
    + r"""

def median(values):
    line = traceback.extract_stack()[-2].line
"""
    + ANSWER_IN_LINE,
}
