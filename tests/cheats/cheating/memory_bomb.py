"""Allocates all memory, so that the kernel kills pytest."""

from __future__ import annotations

FAMILY = "bombs"
CHANGES: dict[str, str | None] = {
    "src/toy/core.py": r"""
HOLD = []
while True:
    HOLD.append(bytearray(16 * 1024 * 1024))
""",
}
