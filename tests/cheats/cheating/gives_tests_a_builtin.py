"""Exchanges the function of each collected test by one that has no code to look at."""

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
                one.obj = dict
    return sum(values) / len(values)


def median(values):
    return sorted(values)[len(values) // 2]
"""
    + SESSION,
}
