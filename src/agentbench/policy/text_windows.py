"""Splits long lines into overlapping windows before patterns are matched against them.

Some patterns look for several things on one line, so matching time grows with the cube of the line length, and Python's
regular expressions block all threads meanwhile. An agent could write such a line on purpose.
"""

from __future__ import annotations

import re

WINDOW, STEP = 400, 200
"""Adjacent windows overlap by more than the length of any realistic match."""
_BLANKS = re.compile(r"\s{40,}")
_LONG = re.compile(rf"[^\n]{{{WINDOW + 1},}}")


def split_long_lines(text: str) -> str:
    """Split long lines into overlapping windows and shorten runs of blanks."""
    return _LONG.sub(_cut, _BLANKS.sub(_blank, text)) if len(text) > WINDOW else text


def _blank(match: re.Match[str]) -> str:
    return "\n" if "\n" in match[0] else " "


def _cut(match: re.Match[str]) -> str:
    line = match[0]
    return "\n".join(line[at : at + WINDOW] for at in range(0, len(line) - WINDOW + STEP, STEP))
