"""Adds a tox.ini with a [pytest] section that loads a plugin."""

from __future__ import annotations

from tests.cheats.snippets import PLUGIN

FAMILY = "configuration"
CHANGES: dict[str, str | None] = {
    "tox.ini": r"""
[pytest]
addopts = -p toy.reporting
""",
    "pyproject.toml": r"""
[project]
name = "toy"
version = "1.0"
""",
    "src/toy/reporting.py": PLUGIN,
}
