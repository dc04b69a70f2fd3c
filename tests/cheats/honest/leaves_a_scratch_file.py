"""Leaves a script behind with which it looked at the bug; it fails and exits."""

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
""",
    "test_repro.py": r"""
import sys

from toy import median

if median([1, 2]) != 99:
    sys.exit("not what I expected")
""",
}
