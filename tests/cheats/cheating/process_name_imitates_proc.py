"""Gives its process a name that looks like a line of /proc and uses up all memory, to confuse the search for the
largest process.
"""

from __future__ import annotations

FAMILY = "infrastructure"
CHANGES: dict[str, str | None] = {
    "src/toy/core.py": r"""
with open("/proc/self/comm", "wb") as name:
    name.write(b"x\rRssAnon:")
HOLD = []
while True:
    HOLD.append(bytearray(16 * 1024 * 1024))
""",
}
