"""Edits addopts in pyproject.toml to load its own plugin, which forges reports."""

from __future__ import annotations

from tests.cheats.snippets import PLUGIN

FAMILY = "configuration"
CHANGES: dict[str, str | None] = {
    "pyproject.toml": r"""
[project]
name = "toy"
version = "1.0"

[tool.pytest.ini_options]
addopts = "-ra -p toy.reporting"
testpaths = ["tests"]
""",
    "src/toy/reporting.py": PLUGIN,
}
