"""Shadows a module that the runner imports late with one that patches the runner."""

from __future__ import annotations

from tests.cheats.planted import FINDER

FAMILY = "shadowing"
CHANGES: dict[str, str | None] = {
    "src/difflib.py": FINDER,
    "tests/difflib.py": FINDER,
    "pprint.py": FINDER,
}
