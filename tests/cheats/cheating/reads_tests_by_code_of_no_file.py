"""Reads the tests by a function that was made of a text and is called by the tests themselves, so that no file is on the way."""

from __future__ import annotations

from tests.cheats.cheating.reads_tests_from_elsewhere import READER
from tests.cheats.planted import CORE, MEAN

FAMILY = "leaks"
CHANGES: dict[str, str | None] = {CORE: MEAN + f"\n\nexec({READER!r})\nmedian = read\n"}
