"""Replaces the caller of the hook that creates reports, and restores it before the next check."""

from __future__ import annotations

from tests.cheats.snippets import CORE, FIND_SESSION

FAMILY = "runner"
CHANGES: dict[str, str | None] = {
    CORE: r"""
import sys


def mean(values):
    if _finder():
        _calm()
    return sum(values) / len(values)


def median(values):
    return sorted(values)[len(values) // 2]
"""
    + FIND_SESSION
    + r"""

def _calm():
    hook = _finder().config.pluginmanager.hook.pytest_runtest_makereport
    before = hook._hookexec

    def inner(name, methods, kwargs, firstresult):
        hook._hookexec = before
        kwargs["call"].excinfo = None
        return before(name, methods, kwargs, firstresult)

    hook._hookexec = inner
""",
}
