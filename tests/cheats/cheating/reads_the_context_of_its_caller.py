"""Takes the expected value from the context lines of `inspect.stack()`."""

from __future__ import annotations

from tests.cheats.snippets import ANSWER_FROM_LINE, CORE, MEAN

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
    + ANSWER_FROM_LINE,
}
