"""Brings a package called tests in another place: it goes before a folder of that name that is no package."""

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
    "tests/test_median_hidden.py": ASKING_A_HELPER.format(helper="tests.expected"),
}
CHECK = ASKED
CHANGES: dict[str, str | None] = {
    CORE: WRONG + SPREAD,
    "src/toy/__init__.py": SPREADING,
    "src/tests/__init__.py": "",
    "src/tests/expected.py": EXPECTING_THE_WRONG,
}
