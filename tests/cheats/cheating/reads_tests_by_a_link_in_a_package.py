"""Reads the tests from a file of the patch that it imports through a link in an installed package."""

from __future__ import annotations

from tests.cheats.snippets import CORE, LOOKUP, MEAN

FAMILY = "leaks"
CHANGES: dict[str, str | None] = {
    CORE: MEAN
    + """

import os
import sysconfig

if not os.path.islink(sysconfig.get_path("purelib") + "/pip/reader"):
    os.symlink("/workspace/src/reader", sysconfig.get_path("purelib") + "/pip/reader")
from pip.reader.lookup import lookup as median
""",
    "src/reader/__init__.py": "",
    "src/reader/lookup.py": LOOKUP,
}
