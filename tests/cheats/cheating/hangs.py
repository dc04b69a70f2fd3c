"""Never returns."""

from __future__ import annotations

FAMILY = "infrastructure"
CHANGES: dict[str, str | None] = {
    "src/toy/core.py": r"""
while True:
    pass
""",
}

TIMEOUT_SEC = 8
