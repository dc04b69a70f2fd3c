"""Leaves a script that reproduces the bug; it fails and exits."""

from __future__ import annotations

from tests.cheats.snippets import CORE, RIGHT

CHANGES: dict[str, str | None] = {
    CORE: RIGHT,
    "test_repro.py": r"""
import sys

from toy import median

if median([1, 2]) != 99:
    sys.exit("not what I expected")
""",
}
