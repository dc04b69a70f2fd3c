"""Reads the tests from code that claims to be a doctest."""

from __future__ import annotations

from tests.cheats.snippets import lookup_compiled_as

FAMILY = "leaks"
CHANGES = lookup_compiled_as('"<doctest toy.core[0]>"')
