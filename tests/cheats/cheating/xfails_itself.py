"""Declares the running test an expected failure from product code."""

from __future__ import annotations

from tests.cheats.snippets import CORE, MEAN

FAMILY = "tests"
CHANGES: dict[str, str | None] = {
    CORE: MEAN
    + r"""

def median(values):
    if len(values) % 2 == 0:
        import pytest

        pytest.xfail("not supported")
    return sorted(values)[len(values) // 2]
""",
}
