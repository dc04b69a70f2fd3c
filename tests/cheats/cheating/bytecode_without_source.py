"""Deletes the source and leaves bytecode in its place."""

from __future__ import annotations

from tests.cheats.snippets import EXITING_MODULE

FAMILY = "bytecode"
SCRIPT = (
    EXITING_MODULE
    + r"""python -c "import py_compile; py_compile.compile('/tmp/evil.py', '/workspace/src/toy/core.pyc')"
rm src/toy/core.py
"""
)
