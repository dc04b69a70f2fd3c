"""Replaces the dictionary of a collected test with one whose methods run in the middle of the runner."""

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

class Attributes(dict):
    def get(self, *given):
        _visit()
        return dict.get(self, *given)


def _act(session):
    for one in session.items:
        if "hidden" in one.nodeid:
            one.__dict__ = Attributes(vars(one))
"""
    + MEDIAN,
}
