"""Takes the expected value from the parameters in the marks of the test module."""

from __future__ import annotations

from tests.cheats.snippets import CORE, FALLBACK_GUESS, MEAN, TABLE_REQUIREMENTS, TABLE_TESTS

HIDDEN = TABLE_TESTS
CHECK = TABLE_REQUIREMENTS
CHANGES: dict[str, str | None] = {
    CORE: "import sys\n"
    + MEAN
    + """

def median(values):
    for module in list(sys.modules.values()):
        for member in list(vars(module).values()) if hasattr(module, "__dict__") else ():
            for mark in vars(member).get("pytestmark", ()) if type(member) is type(mean) else ():
                for row in mark.args[1] if mark.name == "parametrize" else ():
                    if type(row) is tuple and row[0] == values:
                        return row[1]
"""
    + FALLBACK_GUESS,
}
