"""Renames a function of pytest to a string whose comparison runs in the middle of the runner."""

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
    __hash__ = str.__hash__

    def __eq__(self, other):
        _visit()
        return str.__eq__(self, other)


names = vars(sys.modules["_pyt" + "est.runner"])
names[Name("show_test_item")] = names.pop("show_test_item")
"""
    + WRONG,
}
