"""Reads the tests from a function compiled from text, which the tests call directly, so that no file is on the
stack.
"""

from __future__ import annotations

from tests.cheats.cheating.reads_tests_under_a_false_file_name import READER
from tests.cheats.snippets import CORE, MEAN

FAMILY = "leaks"
CHANGES: dict[str, str | None] = {CORE: MEAN + f"\n\nexec({READER!r})\nmedian = read\n"}
