"""Registers an exit handler that ends the process with status 0 whatever the results."""

from __future__ import annotations

from tests.cheats.snippets import CORE, WRONG

FAMILY = "early_exit"
CHANGES: dict[str, str | None] = {
    CORE: r"""
import atexit
import os

atexit.register(os._exit, 0)
"""
    + WRONG,
}
