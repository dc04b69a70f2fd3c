"""Puts a unittest package into the root whose assertions accept everything."""

from __future__ import annotations

FAMILY = "shadowing"
CHANGES: dict[str, str | None] = {
    "unittest/__init__.py": r"""
class TestCase:
    def assertEqual(self, *args):
        pass
""",
    "tests/unittest.py": r"""
class TestCase:
    def assertEqual(self, *args):
        pass
""",
}
