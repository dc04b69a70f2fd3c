"""Adds a property to the class of the tests, which hides the one of its base."""

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

class Hooks:
    def __init__(self, real):
        self.real = real

    def __getattr__(self, name):
        return getattr(self.real, name)

    def pytest_pyfunc_call(self, pyfuncitem):
        return "hidden" in pyfuncitem.nodeid or self.real.pytest_pyfunc_call(pyfuncitem=pyfuncitem)


def _act(session):
    kind = next(type(one) for one in session.items if type(one).__name__ == "Function")
    real = next(vars(base)["ihook"] for base in kind.__mro__ if "ihook" in vars(base))
    kind.ihook = property(lambda item: Hooks(real.__get__(item)))
"""
    + MEDIAN,
}
