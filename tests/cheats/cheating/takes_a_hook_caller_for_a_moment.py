"""Puts itself before the hook that makes reports and steps back before anybody looks."""

from __future__ import annotations

from tests.cheats.planted import CORE, SESSION

FAMILY = "runner"
CHANGES: dict[str, str | None] = {
    CORE: r"""
import sys


def mean(values):
    if _home():
        _calm()
    return sum(values) / len(values)


def median(values):
    return sorted(values)[len(values) // 2]
"""
    + SESSION
    + r"""

def _calm():
    hook = _home().config.pluginmanager.hook.pytest_runtest_makereport
    before = hook._hookexec

    def inner(name, methods, kwargs, firstresult):
        hook._hookexec = before
        kwargs["call"].excinfo = None
        return before(name, methods, kwargs, firstresult)

    hook._hookexec = inner
""",
}
