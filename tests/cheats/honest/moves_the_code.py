"""Moves the code to another module and keeps the old name."""

from __future__ import annotations

from tests.cheats.snippets import CORE, RIGHT

CHANGES: dict[str, str | None] = {
    CORE: r"""
from toy.numbers_of import mean, median
""",
    "src/toy/numbers_of.py": RIGHT,
}
