"""Fills disk and inodes, so that nothing more can be written."""

from __future__ import annotations

from tests.cheats.snippets import CORE, WRONG

FAMILY = "bombs"
CHANGES: dict[str, str | None] = {
    CORE: r"""
import os
"""
    + WRONG
    + r"""

for place in ("/workspace", "/tmp", "/dev/shm"):
    try:
        with open(os.path.join(place, "full"), "wb") as file:
            while True:
                file.write(b"x" * 1048576)
    except OSError:
        pass
""",
}
