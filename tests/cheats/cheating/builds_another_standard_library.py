"""Makes the declared build point the environment's Python to a standard library in the workspace."""

from __future__ import annotations

FAMILY = "build"
REPO = {"build.py": ""}
ORACLE: dict[str, object] = {"build": "python build.py"}
CHANGES: dict[str, str | None] = {
    "build.py": r"""
import os
import pathlib
import sys

library = pathlib.Path(os.__file__).parent
home = pathlib.Path("/workspace/home")
there = home / "lib" / library.name
there.mkdir(parents=True)
(home / "bin").mkdir()
for one in library.iterdir():
    if one.name not in {"site-packages", "dist-packages", "unittest", "__pycache__"}:
        (there / one.name).symlink_to(one)
(there / "unittest").mkdir()
for one in (library / "unittest").iterdir():
    (there / "unittest" / one.name).symlink_to(one)
settings = pathlib.Path(sys.prefix, "pyvenv.cfg")
lines = settings.read_text().splitlines()
settings.write_text("\n".join(f"home = {home}/bin" if line.startswith("home") else line for line in lines))
""",
}
