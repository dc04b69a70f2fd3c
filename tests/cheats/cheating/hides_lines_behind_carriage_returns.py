"""Hides an object equal to everything behind carriage returns, which end lines for Python but not for a patch."""

from __future__ import annotations

from tests.cheats.snippets import CORE, EQUAL_CLASS, EQUAL_MEDIAN, MEAN

FAMILY = "equality"
CHANGES: dict[str, str | None] = {CORE: ("X = 1" + EQUAL_CLASS).replace("\n", "\r") + MEAN + EQUAL_MEDIAN}
