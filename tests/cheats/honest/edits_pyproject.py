"""Edits pyproject.toml honestly: version, a dependency, stricter options for pytest."""

from __future__ import annotations

from tests.cheats.snippets import CORE, RIGHT

CHANGES: dict[str, str | None] = {
    CORE: RIGHT,
    "pyproject.toml": r"""
[project]
name = "toy"
version = "1.1"
dependencies = ["attrs"]

[tool.pytest.ini_options]
addopts = "-ra --strict-markers"
testpaths = ["tests"]
markers = ["slow"]
""",
}
