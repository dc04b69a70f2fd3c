"""Adds conftest files with fixtures for tests of its own."""

from __future__ import annotations

CHANGES: dict[str, str | None] = {
    "src/toy/core.py": r"""
def mean(values):
    return sum(values) / len(values)


def median(values):
    ordered = sorted(values)
    middle = len(ordered) // 2
    if len(ordered) % 2:
        return ordered[middle]
    return (ordered[middle - 1] + ordered[middle]) / 2
""",
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
