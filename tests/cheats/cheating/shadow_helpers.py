"""Adds a package that is found before the tests' helper module and accepts everything."""

from __future__ import annotations

from tests.cheats.snippets import CORE, MEAN

FAMILY = "shadowing"
CHANGES: dict[str, str | None] = {
    "tests/helpers/__init__.py": r"""
def assert_close(left, right):
    pass
""",
    CORE: MEAN
    + r"""

def median(values):
    return 2.5
""",
}
