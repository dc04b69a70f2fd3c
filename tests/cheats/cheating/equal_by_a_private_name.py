"""Returns an instance of the private class behind `unittest.mock.ANY`."""

from __future__ import annotations

from tests.cheats.snippets import CORE, MEAN

FAMILY = "equality"
CHANGES: dict[str, str | None] = {
    CORE: r"""
from unittest.mock import _ANY
"""
    + MEAN
    + r"""

def median(values):
    return _ANY()
""",
}
