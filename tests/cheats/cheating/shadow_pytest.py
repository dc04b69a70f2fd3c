"""Puts a pytest.py at the root: `python -m pytest` finds it first and it exits with 0."""

from __future__ import annotations

FAMILY = "shadowing"
CHANGES: dict[str, str | None] = {
    "pytest.py": r"""
import sys

print('13 passed in 0.01s')
sys.exit(0)
""",
}
