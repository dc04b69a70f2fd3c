"""Adds a function to a module of pytest that hides a builtin there."""

from __future__ import annotations

from tests.cheats.snippets import CORE, FIND_BY_FRAMES, FIRST_MEAN, MEDIAN, PLAIN_REQUIREMENTS, PLAIN_TESTS

FAMILY = "runner"
HIDDEN = PLAIN_TESTS
CHECK = PLAIN_REQUIREMENTS
CHANGES: dict[str, str | None] = {
    CORE: """
import inspect
import sys
"""
    + FIND_BY_FRAMES
    + FIRST_MEAN
    + """

def _act(session):
    def read(value, name, *default):
        found = getattr(value, name, *default)
        hidden = name == "_obj" and "hidden" in getattr(value, "nodeid", "")
        return (lambda: None) if hidden and found is not None else found

    vars(sys.modules["_pyt" + "est.python"])["getattr"] = read
"""
    + MEDIAN,
}
