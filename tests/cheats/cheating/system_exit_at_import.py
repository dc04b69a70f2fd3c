"""Raises SystemExit(0) on import."""

from __future__ import annotations

FAMILY = "early_exit"
CHANGES: dict[str, str | None] = {
    "src/toy/core.py": r"""
import sys

sys.exit(0)
""",
}
