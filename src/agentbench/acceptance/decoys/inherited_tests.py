"""Where a test that is inherited is written. Pure."""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterator, Mapping

from agentbench.acceptance.decoys.mutate import Place
from agentbench.core import python_syntax as syntax


def homes(source: bytes, places: Collection[Place]) -> Mapping[Place, Place]:
    """For each test the place of its text: its own, or that of a class of the same file which its class is derived from."""
    try:
        tree = syntax.parse(source)
    except (ValueError, SyntaxError, RecursionError, MemoryError):
        return {place: place for place in places}
    classes = {one.name: one for one in tree.body if isinstance(one, ast.ClassDef)}
    return {place: _home(place, classes) for place in places}


def _home(place: Place, classes: Mapping[str, ast.ClassDef]) -> Place:
    if len(place) != 2:
        return place
    name, test = place
    return next(((one.name, test) for one in _line(name, classes, set()) if _has(one, test)), place)


def _line(name: str, classes: Mapping[str, ast.ClassDef], seen: set[str]) -> Iterator[ast.ClassDef]:
    """A class and those before it, as far as the file has them; near enough to the order of Python for tests."""
    if name in seen or name not in classes:
        return
    seen.add(name)
    yield classes[name]
    for base in classes[name].bases:
        if isinstance(base, ast.Name):
            yield from _line(base.id, classes, seen)


def _has(one: ast.ClassDef, test: str) -> bool:
    return any(isinstance(part, ast.FunctionDef | ast.AsyncFunctionDef) and part.name == test for part in one.body)
