"""Adds a package named `tests` elsewhere, which is found before the project's `tests` folder without an
`__init__.py`.
"""

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
    "tests/test_median_hidden.py": TESTS_WITH_HELPER.format(helper="tests.expected"),
}
CHECK = HELPER_REQUIREMENTS
CHANGES: dict[str, str | None] = {
    CORE: WRONG + SPREAD,
    "src/toy/__init__.py": SPREAD_EXPORTS,
    "src/tests/__init__.py": "",
    "src/tests/expected.py": WRONG_EXPECTED,
}
