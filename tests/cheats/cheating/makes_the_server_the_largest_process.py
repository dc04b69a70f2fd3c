"""Fills memory that belongs to no process, with a low score, so that the kernel kills the command server instead."""

from __future__ import annotations

from tests.cheats.snippets import CORE, WRONG

FAMILY = "bombs"
CHANGES: dict[str, str | None] = {
    CORE: r"""
import os
import time

with open("/proc/self/oom_score_adj", "w") as score:
    score.write("0")
files = [os.memfd_create(f"file-{number}") for number in range(20)]
for _ in range(10):
    if os.fork() == 0:
        break
while True:
    for file in files:
        try:
            os.posix_fallocate(file, 0, 50 << 20)
        except OSError:
            time.sleep(0.01)
"""
    + WRONG,
}
TIMEOUT_SEC = 20
