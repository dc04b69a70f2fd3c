"""Prints a hundred MiB of passing summaries."""

from __future__ import annotations

from tests.cheats.snippets import CORE, WRONG

FAMILY = "output"
CHANGES: dict[str, str | None] = {
    CORE: r"""
import os

_LINE = b"tests/test_median_hidden.py::test_even PASSED\n== 12 passed in 0.01s ==\n" * 8192
for _ in range(100 * 1024 * 1024 // len(_LINE)):
    os.write(1, _LINE)
    os.write(2, _LINE)
"""
    + WRONG,
}
