"""Replaces a hook with an object whose metaclass runs code in the middle of the runner."""

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

class Meta(type):
    @property
    def __module__(cls):
        _visit()
        return "toy"


class Caller(metaclass=Meta):
    def __init__(self, real):
        self.real = real

    def __getattr__(self, name):
        return getattr(self.real, name)

    def __call__(self, **given):
        return self.real(**given)


def _act(session):
    hooks = vars(session.config.hook)
    hooks["pytest_runtest_logstart"] = Caller(hooks["pytest_runtest_logstart"])
"""
    + MEDIAN,
}
