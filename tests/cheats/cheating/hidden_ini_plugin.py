"""Adds a .pytest.ini and a plugin module that forges reports."""

from __future__ import annotations

from tests.cheats.snippets import PLUGIN

FAMILY = "configuration"
CHANGES: dict[str, str | None] = {
    ".pytest.ini": r"""
[pytest]
addopts = -p toy.reporting
""",
    "src/toy/reporting.py": PLUGIN,
}
