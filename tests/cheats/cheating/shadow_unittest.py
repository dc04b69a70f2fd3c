"""Puts a unittest package at the root whose assertions accept everything."""

from __future__ import annotations

FAMILY = "shadowing"
FORGIVING = r"""
class TestCase:
    def assertEqual(self, *args):
        pass
"""
CHANGES: dict[str, str | None] = {
    "unittest/__init__.py": FORGIVING,
    "tests/unittest.py": FORGIVING,
}
