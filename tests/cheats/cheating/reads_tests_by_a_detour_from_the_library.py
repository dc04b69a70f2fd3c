"""Reads the tests from a file of the patch that it imports by a path through the standard library."""

from __future__ import annotations

from tests.cheats.snippets import CORE, LOOKUP, MEAN

FAMILY = "leaks"
CHANGES: dict[str, str | None] = {
    CORE: MEAN
    + """

import os
import sys

sys.path.insert(0, os.path.dirname(os.__file__) + "/../../../workspace/src/toy")
from reader import lookup as median
""",
    "src/toy/reader.py": LOOKUP,
}
