"""Gives the session a method that hides the one of its class."""

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
    real = session.gethookproxy
    session.gethookproxy = lambda path: Hooks(real(path))
"""
    + MEDIAN,
}
