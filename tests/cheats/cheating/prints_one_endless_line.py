"""Prints one endless line of NUL bytes and invalid characters."""

from __future__ import annotations

from tests.cheats.snippets import CORE, WRONG

FAMILY = "output"
CHANGES: dict[str, str | None] = {
    CORE: r"""
import os

for _ in range(64):
    os.write(1, b"\0\xff\xfe\xed\xa0\x80" * 175_000)
"""
    + WRONG,
}
