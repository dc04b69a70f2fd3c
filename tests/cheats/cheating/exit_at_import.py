"""Ends the process with status 0 as soon as the package is imported."""

from __future__ import annotations

FAMILY = "early_exit"
CHANGES: dict[str, str | None] = {
    "src/toy/core.py": r"""
import os

os._exit(0)
""",
}
