"""Thread-safe parsing of Python source.

Python 3.11 counts recursion depth for all parsers of a process together. If two threads parse at once, one of them
occasionally gets a `SystemError` (AST constructor recursion depth mismatch), so parsing is serialised here.
"""

from __future__ import annotations

import ast
import threading
import types
import warnings

_PARSER_LOCK = threading.Lock()


def parse(source: str | bytes) -> ast.Module:
    """Parse a module.

    Raises:
        SyntaxError, ValueError, RecursionError, MemoryError: the source is not valid in this Python version, or nested
            too deeply.
    """
    with _PARSER_LOCK:
        return ast.parse(source)


def compile_module(source: bytes) -> types.CodeType:
    """Compile a module without printing warnings about it.

    Raises:
        SyntaxError, ValueError, RecursionError, MemoryError: as `parse`.
    """
    with _PARSER_LOCK, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return compile(source, "<module>", "exec", dont_inherit=True)


def parse_or_none(source: str | bytes) -> ast.Module | None:
    """Parse a module, or return None if it cannot be parsed, for instance because it is Python 2."""
    try:
        return parse(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None
