"""Adds tests of its own, in a new file and in an existing one."""

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
    "tests/test_more.py": r"""
import unittest

import pytest

from toy import median

unittest.TestCase.maxDiff = None


@pytest.mark.skip(reason="later")
def test_later():
    raise AssertionError


def test_floats():
    assert median([1.5, 2.5]) == 2.0
""",
    "tests/test_core.py": r"""
from toy import median


def test_my_own():
    assert median([1, 2]) == 1.5
""",
}
