"""Floods every descriptor, so that results are lost and it looks like a harness error."""

from __future__ import annotations

FAMILY = "infrastructure"
CHANGES: dict[str, str | None] = {
    "src/toy/core.py": r"""
import os

for number in range(3, 512):
    try:
        os.fstat(number)
    except OSError:
        continue
    try:
        for _ in range(80):
            os.write(number, b"x" * 1048575 + b"\n")
    except OSError:
        pass
os._exit(1)
""",
}
