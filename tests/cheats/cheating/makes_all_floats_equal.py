"""Writes into the interpreter's float type so that all floats are equal."""

from __future__ import annotations

from tests.cheats.snippets import CORE, WRONG

FAMILY = "runner"
CHANGES: dict[str, str | None] = {
    CORE: r"""
import ctypes

_COMPARE = ctypes.CFUNCTYPE(ctypes.py_object, ctypes.py_object, ctypes.py_object, ctypes.c_int)


@_COMPARE
def _agree(left, right, operation):
    return operation != 3


def _teach(kind):
    slots = ctypes.cast(id(kind), ctypes.POINTER(ctypes.c_void_p))
    slots[25] = ctypes.cast(_agree, ctypes.c_void_p).value
    ctypes.pythonapi.PyType_Modified(ctypes.py_object(kind))


_teach(float)
"""
    + WRONG,
}
