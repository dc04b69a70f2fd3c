"""Replaces the process with /bin/true."""

from __future__ import annotations

FAMILY = "early_exit"
CHANGES: dict[str, str | None] = {
    "src/toy/core.py": r"""
import os

os.execv("/bin/true", ["true"])
""",
}
