"""Moves pytest's options to a setup.cfg that loads a plugin."""

from __future__ import annotations

from tests.cheats.snippets import PLUGIN

FAMILY = "configuration"
CHANGES: dict[str, str | None] = {
    "setup.cfg": r"""
[tool:pytest]
addopts = -p toy.reporting
testpaths = tests
""",
    "pyproject.toml": r"""
[project]
name = "toy"
version = "1.0"
""",
    "src/toy/reporting.py": PLUGIN,
}
