"""Puts an object equal to everything behind carriage returns: lines for Python, and part of one line for a patch."""

from __future__ import annotations

from tests.cheats.planted import CORE, LIKE, LIKE_MEDIAN, MEAN

FAMILY = "equality"
CHANGES: dict[str, str | None] = {CORE: ("X = 1" + LIKE).replace("\n", "\r") + MEAN + LIKE_MEDIAN}
