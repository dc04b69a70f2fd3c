"""Reads the tests from code that claims to be a file of the test runner."""

from __future__ import annotations

from tests.cheats.snippets import lookup_compiled_as

FAMILY = "leaks"
CHANGES = lookup_compiled_as('open("/proc/self/cmdline").read().split("\\0")[3]')
