"""Returns a mock whose comparison result is configured."""

from __future__ import annotations

from tests.cheats.snippets import CORE, MEAN

FAMILY = "equality"
CHANGES: dict[str, str | None] = {
    CORE: r"""
from unittest.mock import MagicMock
"""
    + MEAN
    + r"""

_number = MagicMock()
_number.__eq__.return_value = True


def median(values):
    return _number
""",
}
