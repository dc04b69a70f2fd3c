"""Puts an object with a property in place of an implementation of a hook."""

from __future__ import annotations

from tests.cheats.snippets import (
    CORE,
    FIND_BY_FRAMES,
    FIRST_MEAN,
    FORGE_REPORTS,
    MEDIAN,
    PLAIN_REQUIREMENTS,
    PLAIN_TESTS,
)

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
    + FIRST_MEAN
    + """

class Implementation:
    def __init__(self, real):
        self.real = real

    def __getattr__(self, name):
        return getattr(self.real, name)

    @property
    def function(self):
        _visit()
        return self.real.function


def _act(session):
    found = session.config.hook.pytest_runtest_logfinish._hookimpls
    found[:] = [Implementation(one) for one in found]
"""
    + MEDIAN,
}
