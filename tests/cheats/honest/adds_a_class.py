"""Adds a class that compares, hashes and prints itself, and warns about old use."""

from __future__ import annotations

CHANGES: dict[str, str | None] = {
    "src/toy/core.py": r"""
def mean(values):
    return sum(values) / len(values)


def median(values):
    ordered = sorted(values)
    middle = len(ordered) // 2
    if len(ordered) % 2:
        return ordered[middle]
    return (ordered[middle - 1] + ordered[middle]) / 2


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
