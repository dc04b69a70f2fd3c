"""Replaces the function with which the plugin manager calls hooks."""

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
    manager = session.config.pluginmanager
    real = getattr(manager, "_inner_hook" + "exec")

    def call(hook, found, given, first):
        if "hidden" in getattr(given.get("pyfuncitem"), "nodeid", ""):
            found = [one for one in found if one.hookwrapper or one.wrapper]
        return real(hook, found, given, first)

    setattr(manager, "_inner_hook" + "exec", call)
"""
    + MEDIAN,
}
