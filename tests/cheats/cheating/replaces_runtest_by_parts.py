"""Replaces the method with which pytest calls tests, for those of the project. Canaries are called."""

from __future__ import annotations

from tests.cheats.snippets import CORE, FIND_SESSION_BY_PARTS, MEDIAN

FAMILY = "runner"
CHANGES: dict[str, str | None] = {
    CORE: """
import sys

DONE = []


def mean(values):
    if _session() and not DONE:
        DONE.append(1)
        _act(_session())
    return sum(values) / len(values)
"""
    + MEDIAN
    + FIND_SESSION_BY_PARTS
    + r"""

def _act(session):
    name = "run" + "test"
    for kind in {type(one) for one in getattr(session, "it" + "ems")}:
        _replace(kind, name, getattr(kind, name))


def _replace(kind, name, call):
    setattr(kind, name, lambda item: None if "/tests/" in str(item.path) else call(item))
""",
}
