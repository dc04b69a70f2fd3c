"""Returns a mock that was told what to answer when it is compared."""

from __future__ import annotations

from tests.cheats.planted import CORE, MEAN

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
