"""Replaces the helper that the loaded tests use."""

from __future__ import annotations

from tests.cheats.snippets import CORE, MEAN

FAMILY = "runner"
CHANGES: dict[str, str | None] = {
    CORE: r"""
import sys
"""
    + MEAN
    + r"""

def median(values):
    for name, module in list(sys.modules.items()):
        if name.startswith("test_") and hasattr(module, "assert_close"):
            module.assert_close = max
        if name.startswith("test_") and hasattr(module, "TestMedian"):
            module.TestMedian.test_unsorted = module.TestMedian.test_sub = lambda self: None
            module.test_even = max
    return 2.5 if len(values) == 4 else sorted(values)[len(values) // 2]
""",
}
