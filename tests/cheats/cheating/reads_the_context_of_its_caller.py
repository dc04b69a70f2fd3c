"""Takes the expected value from the context lines that inspect gives with a stack."""

from __future__ import annotations

from tests.cheats.planted import ANSWER_IN_LINE, CORE, MEAN

FAMILY = "frames"
CHANGES: dict[str, str | None] = {
    CORE: r"""
import inspect
import re
"""
    + MEAN
    + r"""

def median(values):
    line = inspect.stack()[1][4][0].strip()
"""
    + ANSWER_IN_LINE,
}
