"""Adds a conftest at the root that turns every report into a pass."""

from __future__ import annotations

from tests.cheats.snippets import PLUGIN

FAMILY = "configuration"
CHANGES: dict[str, str | None] = {
    "conftest.py": PLUGIN,
}
