"""Deletes the hard cases from the visible tests."""

from __future__ import annotations

FAMILY = "tests"
CHANGES: dict[str, str | None] = {
    "tests/test_core.py": r"""
def test_mean():
    assert True
""",
}
