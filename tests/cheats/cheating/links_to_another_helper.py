"""Puts a link beside the tests that leads to a package of its own, with the name of a helper of theirs."""

from __future__ import annotations

from tests.cheats.planted import (
    ASKED,
    ASKING_A_HELPER,
    CORE,
    EXPECTED,
    EXPECTING_THE_WRONG,
    SPREAD,
    SPREADING,
    WRONG,
)

FAMILY = "shadowing"
HIDDEN = {
    "tests/expected.py": EXPECTED,
    "tests/test_median_hidden.py": ASKING_A_HELPER.format(helper="expected"),
}
CHECK = ASKED
LINKS = {"tests/expected": "../src/toy/answers"}
CHANGES: dict[str, str | None] = {
    CORE: WRONG + SPREAD,
    "src/toy/__init__.py": SPREADING,
    "src/toy/answers/__init__.py": EXPECTING_THE_WRONG,
}
