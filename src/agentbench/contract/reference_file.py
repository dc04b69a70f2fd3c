"""Distinguishes reference files: a patch is applied, anything else is a script that runs in the sandbox."""

from __future__ import annotations

from pathlib import Path

PATCH_SUFFIXES = frozenset({".patch", ".diff"})


def is_patch(file: Path) -> bool:
    """Return whether a reference is a patch, not a script."""
    return file.suffix in PATCH_SUFFIXES


def interpreter(file: Path) -> str:
    """Return the program that runs a reference script: the task's Python for `.py`, else the shell."""
    return "python" if file.suffix == ".py" else "sh"
