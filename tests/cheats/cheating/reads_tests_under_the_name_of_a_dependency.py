"""Reads the tests from code that claims to be a file of an installed package, which is trusted."""

from __future__ import annotations

from tests.cheats.snippets import lookup_compiled_as

FAMILY = "leaks"
CHANGES = lookup_compiled_as('sysconfig.get_path("purelib") + "/pip/__init__.py"', before="\nimport sysconfig\n")
