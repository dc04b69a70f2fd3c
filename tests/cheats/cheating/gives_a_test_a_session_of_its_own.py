"""Gives the collected tests an object that stands in for the session."""

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


class Session:
    def __init__(self, real):
        self.real = real

    def __getattr__(self, name):
        return getattr(self.real, name)

    def gethookproxy(self, path):
        return Hooks(self.real.gethookproxy(path))


def _act(session):
    for one in session.items:
        if "hidden" in one.nodeid:
            one.session = Session(session)
"""
    + MEDIAN,
}
