"""Exchanges the function of each collected test by one that has no code to look at."""

from __future__ import annotations

from tests.cheats.planted import CORE, to_every_test

FAMILY = "runner"
CHANGES: dict[str, str | None] = {CORE: to_every_test("one.obj = dict")}
