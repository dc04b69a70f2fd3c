"""Closes every descriptor, so that nothing can be reported."""

from __future__ import annotations

FAMILY = "infrastructure"
CHANGES: dict[str, str | None] = {
    "src/toy/core.py": r"""
import os

os.closerange(0, 65536)
""",
}
