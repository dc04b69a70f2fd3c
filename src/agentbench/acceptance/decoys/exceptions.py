"""Chooses another exception than the expected one, of the same kind, and finds classes that are both. Pure."""

from __future__ import annotations

import ast
import builtins
import random
from collections.abc import Iterable, Mapping
from functools import cached_property

from agentbench.acceptance.decoys.assertions import RAISES
from agentbench.acceptance.decoys.source_file import SourceFile, names_in
from agentbench.core.python_syntax import MAX_SOURCE, affordable, parse_or_none, parse_size

_FREQUENCY = {
    "ValueError": 49,
    "TypeError": 27,
    "IndexError": 8,
    "KeyError": 5,
    "StopIteration": 3,
    "AttributeError": 3,
    "RuntimeError": 2,
    "NotImplementedError": 1,
    "ZeroDivisionError": 1,
    "OverflowError": 1,
    "AssertionError": 1,
    "OSError": 1,
    "FileNotFoundError": 1,
    "PermissionError": 1,
    "UnicodeDecodeError": 1,
    "UnicodeEncodeError": 1,
}
"""How often tests expect a built-in exception: the percentage in the tests of 18 libraries, at least 1."""
_MOST_FREQUENT = "ValueError"
_EXCEPTIONS = frozenset(
    name
    for name, value in vars(builtins).items()
    if isinstance(value, type) and issubclass(value, Exception) and value is not Exception
)


def other_exceptions(expected: ast.expr, file: SourceFile, rng: random.Random) -> list[str]:
    """Return exceptions to expect instead: built-in ones, or for one of the project others that the file expects."""
    text = file.text(expected)
    if text in _FREQUENCY:
        return _other_builtins(text, rng)
    others: list[str] = []
    if isinstance(expected, ast.Name | ast.Attribute):
        others = [other for other in _expected_in(file) if other != text and _same_module(other, text)]
    rng.shuffle(others)
    return others


class ExceptionClasses:
    """The classes of a candidate that are derived from two built-in exceptions. Every file is parsed once at most."""

    def __init__(self, patched: Iterable[bytes], base: Iterable[bytes]) -> None:
        self._sources = patched, base

    def has(self, expected: str, other: str) -> bool:
        """Return whether a class is derived from these two exceptions and no third one.

        Honest code has such classes (`class Missing(KeyError, AttributeError)`). In the files of the patch, classes of
        several such pairs do not count: they could be there to excuse whatever a decoy expects.
        """
        pair = frozenset({expected, other})
        return self._patched == {pair} or pair in self._base

    @cached_property
    def _patched(self) -> set[frozenset[str]]:
        sources = list(self._sources[0])
        return _pairs_of(source for source, allowed in zip(sources, affordable(sources), strict=True) if allowed)

    @cached_property
    def _base(self) -> set[frozenset[str]]:
        return _pairs_of(source for source in self._sources[1] if parse_size(source) <= MAX_SOURCE)


def _pairs_of(sources: Iterable[bytes]) -> set[frozenset[str]]:
    """Return the built-in exceptions of each class that is derived from several."""
    pairs: set[frozenset[str]] = set()
    for source in sources:
        tree = parse_or_none(source)
        nodes = () if tree is None else ast.walk(tree)
        bases = {node.name: node.bases for node in nodes if isinstance(node, ast.ClassDef)}
        pairs |= {exceptions for name in bases if len(exceptions := _builtin_bases(name, bases)) > 1}
    return pairs


def _builtin_bases(name: str, bases: Mapping[str, list[ast.expr]]) -> frozenset[str]:
    """Return the built-in exceptions that a class is derived from."""
    names, pending = set[str](), [name]
    while pending:
        current = pending.pop()
        if current not in names:
            names.add(current)
            pending += [base.id for base in bases.get(current, ()) if isinstance(base, ast.Name)]
    return _EXCEPTIONS.intersection(names - bases.keys())


def _other_builtins(name: str, rng: random.Random) -> list[str]:
    """Return unrelated exceptions, so that each is about as often a wrong one as a real one.

    The most frequent one is replaced by the others as often as they occur, and each of them by it. If it were never a
    wrong one, code that raises it wherever a test names it would always be right.
    """
    others = [other for other in _FREQUENCY if not _related(name, other)]
    others.sort(key=lambda other: -(rng.random() ** (1 / _FREQUENCY[other])))
    if name != _MOST_FREQUENT:
        others.sort(key=lambda other: other != _MOST_FREQUENT)
    return others


def _related(name: str, other: str) -> bool:
    """Return whether an exception of one class is also one of the other."""
    left, right = getattr(builtins, name), getattr(builtins, other)
    return issubclass(left, right) or issubclass(right, left)


def _same_module(name: str, other: str) -> bool:
    builtin = {name, other} & _FREQUENCY.keys()
    return not builtin and name.rpartition(".")[0] == other.rpartition(".")[0]


def _expected_in(file: SourceFile) -> list[str]:
    """Return the exceptions that the tests of a file expect."""
    calls = (node for node in ast.walk(file.tree) if isinstance(node, ast.Call) and node.args)
    expected = (call.args[0] for call in calls if names_in(call.func) & RAISES)
    return sorted({file.text(node) for node in expected if isinstance(node, ast.Name | ast.Attribute)})
