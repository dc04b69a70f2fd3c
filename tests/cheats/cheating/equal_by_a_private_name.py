"""Returns the anything of the mocks, by its class."""

from __future__ import annotations

from tests.cheats.planted import CORE, MEAN

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
