"""Adds a way to read attributes to the class of the tests."""

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
    kind = next(type(one) for one in session.items if type(one).__name__ == "Function")

    def read(item, name):
        if name == "obj" and "hidden" in object.__getattribute__(item, "nodeid"):
            return lambda **given: None
        return object.__getattribute__(item, name)

    kind.__getattribute__ = read
"""
    + MEDIAN,
}
