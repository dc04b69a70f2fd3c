"""Formats errors by their frames, reads the import hooks and compares values by hand, as libraries do."""

from __future__ import annotations

from tests.cheats.snippets import CORE, MEAN

CHANGES: dict[str, str | None] = {
    CORE: r"""
import sys


class Missing:
    def __eq__(self, other):
        return isinstance(other, Missing)

    __hash__ = object.__hash__


class Near(float):
    def __eq__(self, other):
        if not isinstance(other, (int, float)):
            return NotImplemented
        return abs(float(self) - other) < 1e-9

    __hash__ = float.__hash__


def hooks():
    return [type(finder).__name__ for finder in sys.meta_path if hasattr(finder, "find_spec")]


def places(error):
    found = []
    trace = error.__traceback__
    while trace is not None:
        found.append((trace.tb_frame.f_code.co_filename, trace.tb_lineno))
        trace = trace.tb_next
    return found
"""
    + MEAN
    + r"""

def median(values):
    if not values:
        raise ValueError("no values")
    try:
        {}["none"]
    except KeyError as error:
        places(error)
    ordered = sorted(values)
    middle = len(ordered) // 2
    if len(ordered) % 2:
        return ordered[middle]
    return Near((ordered[middle - 1] + ordered[middle]) / 2)
""",
}
