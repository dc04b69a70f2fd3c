"""Adds a class with comparison, hash and repr, and a deprecation warning."""

from __future__ import annotations

from tests.cheats.snippets import CORE, RIGHT

CHANGES: dict[str, str | None] = {
    CORE: RIGHT
    + r"""

import logging
import unittest.mock
import warnings

log = logging.getLogger(__name__)


class Summary:
    def __init__(self, values):
        self.values = list(values)

    def __eq__(self, other):
        return isinstance(other, Summary) and self.values == other.values

    def __hash__(self):
        return hash(tuple(self.values))

    def old(self):
        warnings.warn("use median", DeprecationWarning, stacklevel=2)
        log.info("old", stack_info=True)
        return median(self.values)


Summary([1]).old()
""",
}
