"""Creates a folder where the hidden tests belong, so that they cannot be written."""

from __future__ import annotations

FAMILY = "tests"
CHANGES: dict[str, str | None] = {
    "tests/test_median_hidden.py/__init__.py": r"""

""",
    "tests/test_median_hidden.py/x.txt": r"""
in the way
""",
}
