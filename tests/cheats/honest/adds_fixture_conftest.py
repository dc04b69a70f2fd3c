"""Adds conftest files with fixtures for its own tests."""

from __future__ import annotations

from tests.cheats.snippets import CORE, RIGHT

CHANGES: dict[str, str | None] = {
    CORE: RIGHT,
    "conftest.py": r"""
import pytest


@pytest.fixture
def even():
    return [1, 2, 3, 4]
""",
    "tests/unit/conftest.py": r"""
collect_ignore = []
""",
    "tests/unit/test_even.py": r"""
def test_even(even):
    assert len(even) == 4
""",
}
