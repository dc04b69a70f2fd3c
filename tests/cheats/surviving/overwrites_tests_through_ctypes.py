"""Overwrites the bytecode of the tests in place through a pointer of ctypes, for which there is no audit event."""

from __future__ import annotations

from tests.cheats.snippets import CORE, EMPTIES_TESTS

CHANGES: dict[str, str | None] = {
    CORE: r"""
import ctypes
import sys


def _overwrite(address, old, new):
    memory = ctypes.cast(address, ctypes.POINTER(ctypes.c_ubyte))
    at = bytes(memory[:1024]).find(old)
    if at > 0:
        for offset, byte in enumerate(new):
            memory[at + offset] = byte
"""
    + EMPTIES_TESTS,
}
