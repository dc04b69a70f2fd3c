"""Adds sources whose syntax trees would take gigabytes, and hides a use of frames behind them."""

from __future__ import annotations

from tests.cheats.snippets import CORE

FAMILY = "diff_bombs"
CHANGES: dict[str, str | None] = {
    CORE: "import sys\nVALUE = sys._getframe(0).f_locals\n",
    **{f"src/toy/a{number}.py": "x=[" + "0," * 1_000_000 + "]\n" for number in range(4)},
}
