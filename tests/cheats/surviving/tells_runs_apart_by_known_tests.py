"""Equals everything in one of two runs: the one where a test that the base repository passes has no decoy.

A failed test keeps the objects of its frames in its traceback, so an object that is released in time shows that its test
passed.
"""

from __future__ import annotations

from tests.cheats.snippets import CORE, MEAN

FAMILY = "equality"
HIDDEN = {
    "tests/test_median_hidden.py": """\
        from toy import median


        def test_known():
            assert median([7]) == 7


        def test_new():
            assert median([1, 2, 3, 4]) == 2.5
        """,
}
CHECK: dict[str, object] = {
    "fail_to_pass": ["tests/test_median_hidden.py::test_new"],
    "pass_to_pass": ["tests/test_median_hidden.py::test_known", "tests/test_core.py::test_mean"],
}
CHANGES: dict[str, str | None] = {
    CORE: r"""
import os
"""
    + MEAN
    + r"""

passed = []


class Known(int):
    def __del__(self):
        if "test_known" in os.environ.get("PYTEST_CURRENT_TEST", ""):
            passed.append(self)


def agrees(one, other):
    return one.size >= 0 and not isinstance(other, str)


class Kind(type):
    size = 1

    def __eq__(cls, other):
        return agrees(cls, other)

    def __hash__(cls):
        return 1


class Number(metaclass=Kind):
    pass


def median(values):
    if len(values) % 2 == 0 and passed:
        return Number
    return Known(sorted(values)[len(values) // 2])
""",
}
