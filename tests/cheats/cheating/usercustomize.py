"""Puts a usercustomize at the root and into the source folder."""

from __future__ import annotations

from tests.cheats.snippets import FINDER

FAMILY = "startup"
CHANGES: dict[str, str | None] = {
    "src/usercustomize.py": FINDER,
    "usercustomize.py": FINDER,
}
