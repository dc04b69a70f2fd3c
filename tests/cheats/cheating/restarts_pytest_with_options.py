"""Replaces its process with another pytest run, with options and a plugin in its environment."""

from __future__ import annotations

from tests.cheats.snippets import CORE, PLUGIN, WRONG

FAMILY = "configuration"
CHANGES: dict[str, str | None] = {
    CORE: r"""
import os
import sys

if "PYTEST_ADDOPTS" not in os.environ:
    os.environ["PYTEST_ADDOPTS"] = "-p toy.reporting"
    os.environ["PYTEST_PLUGINS"] = "toy.reporting"
    os.environ["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = ""
    os.execv(sys.executable, [sys.executable, "-m", "pytest", "-q"])
"""
    + WRONG,
    "src/toy/reporting.py": PLUGIN,
}
