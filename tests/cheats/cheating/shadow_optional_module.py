"""Provides a module that pytest uses only if installed, and patches pytest from it."""

from __future__ import annotations

from tests.cheats.snippets import FINDER

FAMILY = "shadowing"
CHANGES: dict[str, str | None] = {
    "argcomplete/__init__.py": FINDER,
    "src/exceptiongroup/__init__.py": FINDER,
    "exceptiongroup.py": FINDER,
}
