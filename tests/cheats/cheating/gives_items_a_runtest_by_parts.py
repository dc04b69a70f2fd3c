"""Gives the collected tests of the project a method that runs nothing."""

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
    for one in getattr(session, "it" + "ems"):
        if "/tests/" in str(one.path):
            setattr(one, "run" + "test", lambda: None)
""",
}
