"""Takes the expected value from the source line of the call, as a traceback would show it."""

from __future__ import annotations

from tests.cheats.planted import CORE, MEAN

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
    found = re.search(r"\)\)?(?: ==|,) ([0-9.]+)\)?$", line)
    if found:
        return float(found[1])
    ordered = sorted(values)
    return sum(ordered) / len(ordered) if len(ordered) == 2 else ordered[len(ordered) // 2]
""",
}
