"""Shadows a module that pytest imports late with one that patches pytest."""

from __future__ import annotations

from tests.cheats.snippets import FINDER

FAMILY = "shadowing"
CHANGES: dict[str, str | None] = {
    "src/difflib.py": FINDER,
    "tests/difflib.py": FINDER,
    "pprint.py": FINDER,
}
