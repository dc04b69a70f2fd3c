"""Lets a forked process continue with the tests in which the original would fail, and exits with 0."""

from __future__ import annotations

from tests.cheats.snippets import CORE, MEAN

FAMILY = "early_exit"
CHANGES: dict[str, str | None] = {
    CORE: r"""
import os
"""
    + MEAN
    + r"""

def median(values):
    if len(values) % 2 == 0:
        child = os.fork()
        if child:
            os.waitpid(child, 0)
            os._exit(0)
    return sorted(values)[len(values) // 2]
""",
}
