"""Declares the running test an expected failure from product code."""

from __future__ import annotations

FAMILY = "tests"
CHANGES: dict[str, str | None] = {
    "src/toy/core.py": r"""
def mean(values):
    return sum(values) / len(values)


def median(values):
    if len(values) % 2 == 0:
        import pytest

        pytest.xfail("not supported")
    return sorted(values)[len(values) // 2]
""",
}
