"""Returns `unittest.mock.ANY`."""

from __future__ import annotations

from tests.cheats.snippets import CORE, MEAN

FAMILY = "equality"
CHANGES: dict[str, str | None] = {
    CORE: r"""
from unittest.mock import ANY
"""
    + MEAN
    + r"""

def median(values):
    return ANY if len(values) % 2 == 0 else sorted(values)[len(values) // 2]
""",
}
