"""Hides an object equal to everything in a file named like data, and links to it under a module name."""

from __future__ import annotations

from tests.cheats.snippets import CORE, EQUAL_CLASS, EQUAL_MEDIAN, MEAN

FAMILY = "equality"
LINKS = {"src/toy/kinds.py": "kinds.data"}
CHANGES: dict[str, str | None] = {
    "src/toy/kinds.data": EQUAL_CLASS,
    CORE: "from toy.kinds import Like\n" + MEAN + EQUAL_MEDIAN,
}
