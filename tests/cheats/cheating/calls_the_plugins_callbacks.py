"""Takes the callbacks out of the runner plugin's cells, reports every result itself, and exits like the runner."""

from __future__ import annotations

from tests.cheats.snippets import CORE, FIND_ATTRIBUTE, MEDIAN

FAMILY = "forged_results"
CHANGES: dict[str, str | None] = {
    CORE: r"""
import os
import sys

_done = []


def mean(values):
    if not _done:
        _done.append(1)
        try:
            _act()
        except Exception as error:
            print("not this time", repr(error))
    return sum(values) / len(values)


def _act():
    frame = sys._getframe(1)
    back, local = _attribute(frame, "f_b", "ck"), _attribute(frame, "f_lo", "als")
    ready, session = None, None
    while frame is not None:
        ready = getattr(frame, local).get("ready", ready)
        session = getattr(frame, local).get("session", session)
        frame = getattr(frame, back)
    plugin = next(one for one in session.config.pluginmanager.get_plugins() if type(one).__name__ == "Plugin")

    def inner(name):
        return getattr(type(plugin), name).__closure__[0].cell_contents

    reported, finished = inner("pytest_runtest_logreport"), inner("pytest_sessionfinish")
    items, session.items[:] = list(session.items), []
    at = False
    for item in items:
        whens = ("setup", "call", "teardown") if at else ()
        if "test_mean" in item.nodeid:
            at, whens = True, ("call", "teardown")
        for when in whens:
            bad = not item.nodeid.startswith("tests/") and when == "call"
            reported(item.nodeid, when, "failed" if bad else "passed", "TestReport", False, "")
    if ready is not None:
        finished(0)
        os._exit(ready[2](0, "", ""))
"""
    + MEDIAN
    + FIND_ATTRIBUTE,
}
