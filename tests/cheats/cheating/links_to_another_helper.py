"""Puts a link next to the tests that leads to its own package, with the name of a test helper."""

from __future__ import annotations

from tests.cheats.snippets import (
    CORE,
    EXPECTED,
    HELPER_REQUIREMENTS,
    SPREAD,
    SPREAD_EXPORTS,
    TESTS_WITH_HELPER,
    WRONG,
    WRONG_EXPECTED,
)

FAMILY = "shadowing"
HIDDEN = {
    "tests/expected.py": EXPECTED,
    "tests/test_median_hidden.py": TESTS_WITH_HELPER.format(helper="expected"),
}
CHECK = HELPER_REQUIREMENTS
LINKS = {"tests/expected": "../src/toy/answers"}
CHANGES: dict[str, str | None] = {
    CORE: WRONG + SPREAD,
    "src/toy/__init__.py": SPREAD_EXPORTS,
    "src/toy/answers/__init__.py": WRONG_EXPECTED,
}
