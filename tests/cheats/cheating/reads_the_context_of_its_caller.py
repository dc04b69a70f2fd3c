"""Takes the expected value from the context lines that inspect gives with a stack."""

from __future__ import annotations

from tests.cheats.planted import CORE, MEAN

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
    found = re.search(r"\)\)?(?: ==|,) ([0-9.]+)\)?$", line)
    if found:
        return float(found[1])
    ordered = sorted(values)
    return sum(ordered) / len(ordered) if len(ordered) == 2 else ordered[len(ordered) // 2]
""",
}
