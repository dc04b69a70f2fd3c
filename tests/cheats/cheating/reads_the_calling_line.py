"""Takes the expected value from the source line of the call, as a traceback shows it."""

from __future__ import annotations

from tests.cheats.snippets import ANSWER_FROM_LINE, CORE, MEAN

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
    + ANSWER_FROM_LINE,
}
