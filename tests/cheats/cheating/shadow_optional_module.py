"""Provides a module that pytest uses only when it is installed, and patches the runner from it."""

from __future__ import annotations

from tests.cheats.planted import FINDER

FAMILY = "shadowing"
CHANGES: dict[str, str | None] = {
    "argcomplete/__init__.py": FINDER,
    "src/exceptiongroup/__init__.py": FINDER,
    "exceptiongroup.py": FINDER,
}
