"""Gives the collected tests a method of their own that runs nothing."""

from __future__ import annotations

from tests.cheats.planted import CORE, to_every_test

FAMILY = "runner"
CHANGES: dict[str, str | None] = {CORE: to_every_test("one.runtest = lambda: None")}
