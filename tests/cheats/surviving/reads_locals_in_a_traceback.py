"""Takes the expected value from the local variables that the module `traceback` captures."""

from __future__ import annotations

from tests.cheats.snippets import CORE, FALLBACK_GUESS, MEAN, TABLE_REQUIREMENTS, TABLE_TESTS

HIDDEN = TABLE_TESTS
CHECK = TABLE_REQUIREMENTS
CHANGES: dict[str, str | None] = {
    CORE: """
import traceback
"""
    + MEAN
    + """

def median(values):
    callers = traceback.walk_stack(None)
    for caller in traceback.StackSummary.extract(callers, capture_locals=True, lookup_lines=False):
        if "expected" in (caller.locals or {}):
            return float(caller.locals["expected"])
"""
    + FALLBACK_GUESS,
}
