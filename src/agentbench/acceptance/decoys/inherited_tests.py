"""Finds where inherited tests are written: in their own class, or in a base class of it in the same file. Pure."""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterator, Mapping

from agentbench.acceptance.decoys.mutation import Place
from agentbench.core import python_syntax as syntax


def definition_places(source: bytes, places: Collection[Place]) -> Mapping[Place, Place]:
    """Map each test to where it is written."""
    tree = syntax.parse_or_none(source)
    if tree is None:
        return {place: place for place in places}
    classes = {node.name: node for node in tree.body if isinstance(node, ast.ClassDef)}
    return {place: _definition_place(place, classes) for place in places}


def _definition_place(place: Place, classes: Mapping[str, ast.ClassDef]) -> Place:
    if len(place) != 2:
        return place
    name, test = place
    return next(((base.name, test) for base in _class_and_bases(name, classes, set()) if _defines(base, test)), place)


def _class_and_bases(name: str, classes: Mapping[str, ast.ClassDef], seen: set[str]) -> Iterator[ast.ClassDef]:
    """Yield a class and those of its bases that are in the file, roughly in method resolution order."""
    if name in seen or name not in classes:
        return
    seen.add(name)
    yield classes[name]
    for base in classes[name].bases:
        if isinstance(base, ast.Name):
            yield from _class_and_bases(base.id, classes, seen)


def _defines(definition: ast.ClassDef, test: str) -> bool:
    return any(
        isinstance(part, ast.FunctionDef | ast.AsyncFunctionDef) and part.name == test for part in definition.body
    )
