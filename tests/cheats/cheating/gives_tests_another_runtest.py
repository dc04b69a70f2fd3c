"""Gives the collected tests a method of their own that runs nothing."""

from __future__ import annotations

from tests.cheats.planted import CORE, SESSION

FAMILY = "runner"
CHANGES: dict[str, str | None] = {
    CORE: r"""
import sys


def mean(values):
    if _home():
        for one in _home().session.items:
            if "tests/" in str(one.path):
                one.runtest = lambda: None
    return sum(values) / len(values)


def median(values):
    return sorted(values)[len(values) // 2]
"""
    + SESSION,
}
