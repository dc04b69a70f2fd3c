"""Gives collected tests another session, whose hooks do not run them."""

from __future__ import annotations

from tests.cheats.snippets import CORE, MEDIAN

FAMILY = "runner"
CHANGES: dict[str, str | None] = {
    CORE: r"""
import sys

_done = []


class Hooks:
    def __init__(self, hook):
        self.hook = hook

    def __getattr__(self, name):
        return (lambda item: None) if name == "pytest_runtest_call" else getattr(self.hook, name)


class Session:
    def __init__(self, session):
        self.inner = session

    def gethookproxy(self, path):
        return Hooks(self.inner.gethookproxy(path))

    def __getattr__(self, name):
        return getattr(self.inner, name)


def mean(values):
    if not _done:
        _done.append(1)
        finders = [one for one in getattr(sys, "meta_" + "path") if hasattr(one, "session")]
        session = finders[0].session if finders else None
        for item in getattr(session, "items", ()):
            if item.nodeid.startswith("tests/"):
                item.session = Session(session)
    return sum(values) / len(values)
"""
    + MEDIAN,
}
