"""Replaces the function with which one hook is called."""

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
    caller = session.config.hook.pytest_pyfunc_call
    real = getattr(caller, "_hook" + "exec")

    def call(name, found, given, first):
        return "hidden" in given["pyfuncitem"].nodeid or real(name, found, given, first)

    setattr(caller, "_hook" + "exec", call)
"""
    + MEDIAN,
}
