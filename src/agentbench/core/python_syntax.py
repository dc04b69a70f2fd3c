"""Thread-safe parsing of Python source.

Python 3.11 counts recursion depth for all parsers of a process together. If two threads parse at once, one of them
occasionally gets a `SystemError` (AST constructor recursion depth mismatch), so parsing is serialised here.
"""

from __future__ import annotations

import ast
import threading
import types
import warnings
from collections.abc import Sequence

from agentbench.core.command import MIB

_PARSER_LOCK = threading.Lock()
MAX_SOURCE = 2 * MIB
"""Parse size of the largest source that is parsed if its author is not trusted."""
MAX_SOURCES = 2 * MAX_SOURCE
"""Parse size of all such sources together. The largest files of popular projects have 1 MB."""
_BYTES_PER_MARK = 8
"""Ordinary source has a punctuation mark or a line end every eight bytes."""
_WORDS = bytes(byte for byte in range(256) if byte >= 128 or chr(byte).isalnum() or chr(byte) in "_ \t")


def parse_size(source: bytes) -> int:
    """Return how many bytes of ordinary source take as long to parse, and as much memory.

    A syntax tree takes up to 500 MB for a parse size of 2 MiB. The tree of `[0,0,…]` is larger than its bytes suggest.
    """
    return max(len(source), _BYTES_PER_MARK * len(source.translate(None, _WORDS)))


def affordable(sources: Sequence[bytes], total: float = MAX_SOURCES) -> list[bool]:
    """Return for each untrusted source whether it may be parsed. Small ones come first: large ones cannot displace them."""
    sizes = [parse_size(source) for source in sources]
    allowed = [False] * len(sources)
    for index in sorted(range(len(sources)), key=sizes.__getitem__):
        total -= sizes[index]
        allowed[index] = sizes[index] <= MAX_SOURCE and total >= 0
    return allowed


def parse(source: str | bytes) -> ast.Module:
    """Parse a module without printing warnings about it.

    Raises:
        SyntaxError, ValueError, RecursionError, MemoryError: the source is not valid in this Python version, or nested
            too deeply.
    """
    with _PARSER_LOCK, warnings.catch_warnings():
        warnings.simplefilter("ignore")
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
