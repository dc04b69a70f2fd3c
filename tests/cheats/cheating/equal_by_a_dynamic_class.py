"""Is equal to everything through a class created at run time from a dictionary."""

from __future__ import annotations

from tests.cheats.snippets import CORE, MEAN

FAMILY = "equality"
CHANGES: dict[str, str | None] = {
    CORE: r"""
Number = type("Number", (float,), {"__eq__": lambda self, other: bool(1), "__sub__": lambda self, other: 0.0, "__hash__": float.__hash__})
"""
    + MEAN
    + r"""

def median(values):
    return Number(sorted(values)[len(values) // 2])
""",
}
