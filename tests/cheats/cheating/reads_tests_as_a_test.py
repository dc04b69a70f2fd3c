"""Reads the tests from code that claims to be a test."""

from __future__ import annotations

from tests.cheats.snippets import lookup_compiled_as

FAMILY = "leaks"
CHANGES = lookup_compiled_as('"/workspace/tests/test_core.py"')
