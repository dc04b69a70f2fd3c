"""Python source as a syntax tree, by one thread at a time.

The parser of Python 3.11 counts the depth of all trees that a process makes in one place: of two threads that parse at once,
one now and then gets a `SystemError` (AST constructor recursion depth mismatch).
"""

from __future__ import annotations

import ast
import threading

_ALONE = threading.Lock()


def parse(source: str | bytes) -> ast.Module:
    """The tree of a module.

    Raises:
        SyntaxError, ValueError, RecursionError, MemoryError: it is no Python of this version, or too deep.
    """
    with _ALONE:
        return ast.parse(source)
