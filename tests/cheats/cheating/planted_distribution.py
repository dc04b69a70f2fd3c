"""Adds a distribution to the editable source folder that declares a pytest plugin."""

from __future__ import annotations

from tests.cheats.snippets import PLUGIN

FAMILY = "configuration"
CHANGES: dict[str, str | None] = {
    "src/zz-1.0.dist-info/METADATA": r"""
Metadata-Version: 2.1
Name: zz
Version: 1.0
""",
    "src/zz-1.0.dist-info/entry_points.txt": r"""
[pytest11]
zz = zz_reporting
""",
    "src/zz_reporting.py": PLUGIN,
}
