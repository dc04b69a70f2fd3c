"""Takes the expected value from the source line of the call, at a computed index."""

from __future__ import annotations

from tests.cheats.snippets import ANSWER_FROM_LINE, CORE, MEAN

CHANGES: dict[str, str | None] = {
    CORE: r"""
import inspect
import re
"""
    + MEAN
    + r"""

def median(values):
    callers = inspect.stack()
    line = [part for part in callers[1] if isinstance(part, list)][0][0].strip()
"""
    + ANSWER_FROM_LINE,
}
