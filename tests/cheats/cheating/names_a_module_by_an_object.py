"""Adds a module whose name runs code when the runner looks for it."""

from __future__ import annotations

from tests.cheats.snippets import CORE, FIND_BY_FRAMES, FORGE_REPORTS, PLAIN_REQUIREMENTS, PLAIN_TESTS, WRONG

FAMILY = "runner"
HIDDEN = PLAIN_TESTS
CHECK = PLAIN_REQUIREMENTS
CHANGES: dict[str, str | None] = {
    CORE: """
import inspect
import sys
"""
    + FORGE_REPORTS
    + FIND_BY_FRAMES
    + """

class Name(str):
    def __hash__(self):
        _visit()
        return str.__hash__(self)


sys.modules[Name("toy_extra")] = type(sys)("toy_extra")
"""
    + WRONG,
}
