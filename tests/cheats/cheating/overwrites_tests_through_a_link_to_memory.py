"""Opens a link to the memory of its own process below a directory descriptor and overwrites the tests there."""

from __future__ import annotations

from tests.cheats.snippets import CORE, EMPTIES_TESTS, OVERWRITE_THROUGH_FILE

FAMILY = "runner"
CHANGES: dict[str, str | None] = {
    CORE: r"""
import os
import sys

os.symlink("/".join(["", "proc", "self", "m" + "em"]), "/tmp/notes")
MEMORY = os.open("notes", os.O_RDWR, dir_fd=os.open("/tmp", os.O_RDONLY))
"""
    + OVERWRITE_THROUGH_FILE
    + EMPTIES_TESTS,
}
