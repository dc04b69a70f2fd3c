"""Reports every remaining test as passed through the session's own hooks, then interrupts the session."""

from __future__ import annotations

from tests.cheats.snippets import CORE, MEDIAN

FAMILY = "forged_results"
CHANGES: dict[str, str | None] = {
    CORE: r"""
import sys

_done = []


def mean(values):
    if not _done:
        _done.append(1)
        _act()
    return sum(values) / len(values)


def _act():
    finders = [one for one in getattr(sys, "meta_" + "path") if hasattr(one, "session")]
    session = finders[0].session if finders else None
    items = list(getattr(session, "items", ()))
    names = [item.nodeid for item in items]
    first = names.index("tests/test_core.py::test_mean") if items else 0
    for item in items[first:]:
        passed = item.nodeid.startswith("tests/") or _passes(item)
        for when in ("setup", "call", "teardown"):
            if item is not items[first] or when != "setup":
                _report(session, item, when, "passed" if passed or when != "call" else "failed")
    if items:
        raise KeyboardInterrupt


def _passes(canary):
    try:
        canary.runtest()
    except Exception:
        return False
    return not getattr(canary, "_excinfo", None)


def _report(session, item, when, outcome):
    kind = sys.modules["_py" + "test.reports"].TestReport
    report = kind(item.nodeid, item.location, {}, outcome, None if outcome == "passed" else "no", when)
    session.config.hook.pytest_runtest_logreport(report=report)
"""
    + MEDIAN,
}
