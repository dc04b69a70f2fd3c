"""Adds a .pytest.ini and a plugin module that falsifies reports."""

from __future__ import annotations

from tests.cheats.planted import PLUGIN

FAMILY = "configuration"
CHANGES: dict[str, str | None] = {
    ".pytest.ini": r"""
[pytest]
addopts = -p toy.reporting
""",
    "src/toy/reporting.py": PLUGIN,
}
