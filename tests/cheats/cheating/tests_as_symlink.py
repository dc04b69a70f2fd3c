"""Replaces the test folder with a link to one of its own."""

from __future__ import annotations

FAMILY = "special_files"
CHANGES: dict[str, str | None] = {
    "tests/conftest.py": None,
    "tests/helpers.py": None,
    "tests/test_core.py": None,
    "spec/test_core.py": r"""
def test_mean():
    pass
""",
    "spec/helpers.py": r"""
def assert_close(left, right):
    pass
""",
}

LINKS = {"tests": "spec"}
