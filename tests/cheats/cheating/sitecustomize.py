"""Puts a sitecustomize into the editable source folder, which an ordinary start imports."""

from __future__ import annotations

from tests.cheats.snippets import FINDER

FAMILY = "startup"
CHANGES: dict[str, str | None] = {
    "src/sitecustomize.py": FINDER,
}
