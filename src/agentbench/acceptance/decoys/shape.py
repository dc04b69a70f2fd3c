"""Compares the compiled forms of two versions of a test. Pure.

Code under test can look at the code objects of a test: its instructions, its constants, and which constants are one
object, because the compiler shares equal constants of a file and reference counts show it. So a wrong value must be
shared exactly where the real one is.
"""

from __future__ import annotations

import dis
import itertools
import types
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Iterator

from agentbench.core import python_syntax as syntax

_CACHED_INTEGERS = range(-5, 257)
"""Integers of which the interpreter keeps a single object."""

MAX_VERSIONS = 1
"""Wrong values for one real value. Code that knew two would recognise the real one: both were made from it."""


class Shape:
    """The compiled form of a part of a source: everything that can be seen of it but the constants themselves.

    The part is a function or an expression. `everywhere` are the constants of the whole source.

    Raises:
        SyntaxError, ValueError, RecursionError, MemoryError: the part cannot be compiled alone.
    """

    def __init__(self, part: bytes, everywhere: Counter[Hashable], *, expression: bool) -> None:
        self._expression = expression
        self._code = self._compile(part)
        self._outside = everywhere - _constants(self._code)

    def is_same(self, part: bytes) -> bool:
        """Return whether another version compiles to the same instructions with constants shared alike."""
        return self._matches(part, lambda code: _shape(code, self._outside))

    def is_similar(self, part: bytes) -> bool:
        """Return whether another version compiles to the same instructions, though a constant is shared otherwise."""
        return self._matches(part, _instructions)

    def _matches(self, part: bytes, shape: Callable[[types.CodeType], Hashable]) -> bool:
        try:
            return shape(self._compile(part)) == shape(self._code)
        except (ValueError, SyntaxError, RecursionError, MemoryError):
            return False

    def _compile(self, part: bytes) -> types.CodeType:
        if self._expression:
            return syntax.compile_module(b"(" + part + b"\n)")
        return syntax.compile_module(b"if 1:\n" + part if part[:1] in (b" ", b"\t") else part)


class Versions:
    """Compares versions of a part of a source in which one literal is replaced.

    `span` has the start of the part, the start and end of the literal, and the end of the part.
    """

    def __init__(
        self, source: bytes, span: tuple[int, int, int, int], everywhere: Counter[Hashable], *, expression: bool
    ) -> None:
        first, start, end, last = span
        self._before, self._after = source[first:start], source[end:last]
        try:
            self._shape: Shape | None = Shape(source[first:last], everywhere, expression=expression)
        except (ValueError, SyntaxError, RecursionError, MemoryError):
            self._shape = None

    def same(self, texts: Iterable[str]) -> list[str]:
        """Return the first replacements with which the part keeps its shape."""
        return [] if self._shape is None else self._first(texts, self._shape.is_same)

    def similar(self, texts: Iterable[str]) -> list[str]:
        """Return the first replacements with which the part keeps its instructions."""
        return [] if self._shape is None else self._first(texts, self._shape.is_similar)

    def _first(self, texts: Iterable[str], matches: Callable[[bytes], bool]) -> list[str]:
        fitting = (text for text in texts if matches(self._before + text.encode() + self._after))
        return list(dict.fromkeys(itertools.islice(fitting, MAX_VERSIONS)))


def constants_of(source: bytes) -> Counter[Hashable]:
    """Return the constants and names of a source, with how often they occur.

    Raises:
        SyntaxError, ValueError, RecursionError, MemoryError: the source cannot be compiled.
    """
    return _constants(syntax.compile_module(source))


def _shape(code: types.CodeType, outside: Counter[Hashable]) -> Hashable:
    """Return instructions, and of each constant its type, how often the code uses it and whether other code does."""
    uses: Counter[Hashable] = Counter()
    kinds: dict[Hashable, tuple[str, bool, bool]] = {}
    for part in _codes(code):
        for value in _loaded_constants(part):
            key = _key(value)
            uses[key] += 1
            kinds[key] = (type(value).__name__, _is_cached(value), not _is_cached(value) and key in outside)
    names = tuple(len(part.co_names) for part in _codes(code))
    return _instructions(code), names, tuple(sorted((*kinds[key], count) for key, count in uses.items()))


def _loaded_constants(code: types.CodeType) -> Iterator[object]:
    extended = 0
    for operation, argument in zip(code.co_code[::2], code.co_code[1::2], strict=True):
        number = extended << 8 | argument
        extended = number if operation == dis.EXTENDED_ARG else 0
        if operation in dis.hasconst:
            yield code.co_consts[number]


def _codes(code: types.CodeType) -> Iterator[types.CodeType]:
    yield code
    for value in code.co_consts:
        if isinstance(value, types.CodeType):
            yield from _codes(value)


def _instructions(code: types.CodeType) -> Hashable:
    """Return instructions without the numbers of constants and names, and the types of constants."""
    numbered = {*dis.hasconst, *dis.hasname}
    operations = tuple(
        (operation, None if operation in numbered else argument)
        for operation, argument in zip(code.co_code[::2], code.co_code[1::2], strict=True)
        if operation != dis.EXTENDED_ARG
    )
    inner = tuple(_instructions(value) for value in code.co_consts if isinstance(value, types.CodeType))
    return operations, inner, frozenset(type(value).__name__ for value in code.co_consts)


def _constants(code: types.CodeType) -> Counter[Hashable]:
    constants: Counter[Hashable] = Counter()
    for part in _codes(code):
        constants.update(_key(name) for name in (*part.co_names, *part.co_varnames))
        constants.update(_key(value) for value in part.co_consts if not isinstance(value, types.CodeType))
    return constants


def _key(value: object) -> Hashable:
    """Return a key that is equal for constants that the compiler shares."""
    if isinstance(value, tuple):
        return ("tuple", *(_key(part) for part in value))
    if isinstance(value, frozenset):
        return ("frozenset", frozenset(_key(part) for part in value))
    return (type(value).__name__, repr(value))


def _is_cached(value: object) -> bool:
    """Return whether the interpreter keeps a single object for this value."""
    if isinstance(value, int) and not isinstance(value, bool):
        return value in _CACHED_INTEGERS
    if isinstance(value, str | bytes):
        return len(value) < 2
    return value is None or isinstance(value, bool) or value == ()
