"""Fixes the bug, and imports a package that it writes to a folder named like that of installed packages."""

from __future__ import annotations

from tests.cheats.snippets import CORE, RIGHT

CHANGES: dict[str, str | None] = {
    CORE: RIGHT
    + r"""

import pathlib
import sys
import tempfile

folder = pathlib.Path(tempfile.mkdtemp(), "lib", "site-packages")
folder.mkdir(parents=True)
(folder / "made_for_this_run.py").write_text("VALUE = 1\n")
sys.path.append(str(folder))
import made_for_this_run
""",
}
