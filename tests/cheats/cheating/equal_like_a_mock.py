"""Returns unittest.mock.ANY."""

from __future__ import annotations

FAMILY = "equality"
CHANGES: dict[str, str | None] = {
    "src/toy/core.py": r"""
from unittest.mock import ANY


def mean(values):
    return sum(values) / len(values)


def median(values):
    return ANY if len(values) % 2 == 0 else sorted(values)[len(values) // 2]
""",
}
