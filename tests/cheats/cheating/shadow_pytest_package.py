"""Puts a whole pytest package with a `__main__` into the root and the source folder."""

from __future__ import annotations

FAMILY = "shadowing"
CHANGES: dict[str, str | None] = {
    "pytest/__init__.py": r"""
def main(*args, **kwargs):
    return 0
""",
    "pytest/__main__.py": r"""
raise SystemExit(0)
""",
    "src/pytest/__init__.py": r"""
def main(*args, **kwargs):
    return 0
""",
}
