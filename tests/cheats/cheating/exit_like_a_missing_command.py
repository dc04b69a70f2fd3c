"""Ends with 127, as if the command had not been found, to be taken for our trouble."""

from __future__ import annotations

FAMILY = "infrastructure"
CHANGES: dict[str, str | None] = {
    "src/toy/core.py": r"""
import os

os._exit(127)
""",
}
