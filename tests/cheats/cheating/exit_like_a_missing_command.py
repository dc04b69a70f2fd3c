"""Exits with 127, as if the command had not been found, to look like a harness error."""

from __future__ import annotations

FAMILY = "infrastructure"
CHANGES: dict[str, str | None] = {
    "src/toy/core.py": r"""
import os

os._exit(127)
""",
}
