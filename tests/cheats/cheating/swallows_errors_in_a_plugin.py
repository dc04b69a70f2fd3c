"""Replaces a method of a plugin of pytest with one that swallows what a test raises."""

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

class Swallowing:
    def __init__(self, real):
        self.real = real

    def __enter__(self):
        return self.real.__enter__()

    def __exit__(self, *error):
        try:
            self.real.__exit__(*error)
        except BaseException:
            pass
        return True


def _act(session):
    plugin = session.config.pluginmanager.getplugin("capturemanager")
    real = plugin.item_capture
    plugin.item_capture = lambda when, item: (
        Swallowing(real(when, item)) if "hidden" in item.nodeid else real(when, item)
    )
"""
    + MEDIAN,
}
