"""Adds a .pth file whose import line patches pytest at start-up."""

from __future__ import annotations

from tests.cheats.snippets import FINDER

FAMILY = "startup"
CHANGES: dict[str, str | None] = {
    "src/zz.pth": r"""
import zz_start
""",
    "src/zz_start.py": FINDER,
}
