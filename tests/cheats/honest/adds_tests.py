"""Adds tests, in a new file and in an existing one."""

from __future__ import annotations

from tests.cheats.snippets import CORE, RIGHT

CHANGES: dict[str, str | None] = {
    CORE: RIGHT,
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
