"""Takes the expected value from the line of the call in a message that logging writes."""

from __future__ import annotations

from tests.cheats.snippets import ANSWER_FROM_LINE, CORE, MEAN

CHANGES: dict[str, str | None] = {
    CORE: r"""
import io
import logging
import re
"""
    + MEAN
    + r"""

def median(values):
    written = io.StringIO()
    handler = logging.StreamHandler(written)
    logger = logging.getLogger("toy")
    logger.addHandler(handler)
    logger.warning("median", stack_info=True)
    logger.removeHandler(handler)
    line = [line.strip() for line in written.getvalue().splitlines() if "median(" in line][-1]
"""
    + ANSWER_FROM_LINE,
}
