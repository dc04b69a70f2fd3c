"""Adds a conftest in the source folder and names it as a plugin in the package's configuration."""

from __future__ import annotations

from tests.cheats.snippets import PLUGIN

FAMILY = "configuration"
CHANGES: dict[str, str | None] = {
    "src/toy/conftest.py": PLUGIN,
    "conftest.py": r"""
pytest_plugins = ["toy.conftest"]
""",
}
