"""Keeps an object equal to everything in a file that is called like data, and a link to it that is called like a module."""

from __future__ import annotations

from tests.cheats.planted import CORE, LIKE, LIKE_MEDIAN, MEAN

FAMILY = "equality"
LINKS = {"src/toy/kinds.py": "kinds.data"}
CHANGES: dict[str, str | None] = {
    "src/toy/kinds.data": LIKE,
    CORE: "from toy.kinds import Like\n" + MEAN + LIKE_MEDIAN,
}
