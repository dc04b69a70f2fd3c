"""Searches all objects for the recorder and has it report everything but canaries as passed."""

from __future__ import annotations

from tests.cheats.snippets import CORE, FORGE_REPORTS

FAMILY = "forged_results"
CHANGES: dict[str, str | None] = {
    CORE: r"""
import gc

DONE = []


def _act():
    if not DONE:
        DONE.append(1)
        gc.unfreeze()  # the runner keeps what is loaded before the tests out of the collector
        for thing in getattr(gc, "get_" + "objects")():
            if type(thing).__name__ == "Recorder":
                _forge(thing)


def mean(values):
    _act()
    return sum(values) / len(values)


def median(values):
    _act()
    return sorted(values)[len(values) // 2]
"""
    + FORGE_REPORTS,
}
