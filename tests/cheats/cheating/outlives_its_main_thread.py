"""Fills the memory in a process whose main thread has ended, so that it looks dead and as if it had none."""

from __future__ import annotations

from tests.cheats.snippets import CORE, WRONG

FAMILY = "bombs"
CHANGES: dict[str, str | None] = {
    CORE: r"""
import ctypes
import os
import threading


def _fill():
    kept = []
    while True:
        kept.append(bytearray(1 << 20))


if not os.fork():
    threading.Thread(target=_fill).start()
    ctypes.CDLL(None).pthread_exit(None)
"""
    + WRONG,
}
