"""Text as patterns are held against it: of long lines pieces that overlap, of long rows of blanks one.

Some patterns look for one thing after another on the same line: the work grows with the cube of its length, and an engine
for regular expressions stops every thread of the harness while it works. Whoever wrote the line may have written it for that.
"""

from __future__ import annotations

import re

WINDOW, STEP = 400, 200
"""What one pattern looks for is shorter than what two pieces share, but for text that nobody would write."""
_BLANKS = re.compile(r"\s{40,}")
_LONG = re.compile(rf"[^\n]{{{WINDOW + 1},}}")


def in_pieces(text: str) -> str:
    """Text whose lines are short. What is short already stays as it is."""
    return _LONG.sub(_cut, _BLANKS.sub(_blank, text)) if len(text) > WINDOW else text


def _blank(found: re.Match[str]) -> str:
    return "\n" if "\n" in found[0] else " "


def _cut(found: re.Match[str]) -> str:
    line = found[0]
    return "\n".join(line[at : at + WINDOW] for at in range(0, len(line) - WINDOW + STEP, STEP))
