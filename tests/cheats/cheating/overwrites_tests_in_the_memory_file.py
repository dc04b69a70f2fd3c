"""Opens the memory of its own process as a file and overwrites the bytecode of the tests in place."""

from __future__ import annotations

from tests.cheats.snippets import CORE, EMPTIES_TESTS, OVERWRITE_THROUGH_FILE

FAMILY = "runner"
CHANGES: dict[str, str | None] = {
    CORE: r"""
import os
import sys

MEMORY = os.open("/".join(["", "proc", str(os.getpid()), "m" + "em"]), os.O_RDWR)
"""
    + OVERWRITE_THROUGH_FILE
    + EMPTIES_TESTS,
}
