"""Values in modules of the tests that nobody there changes: what a test compares with must not be changed by what it tests.

A test module may well change its own lists while it runs, and what it imports is whoever's it is. So only those count that its
text makes and never writes to nor hands on.
"""

from __future__ import annotations

from ast import (
    Assign,
    Attribute,
    AugAssign,
    Call,
    Compare,
    Constant,
    For,
    Global,
    Name,
    Store,
    Subscript,
    comprehension,
    expr,
    walk,
)
from types import ModuleType
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    import ast
    from collections.abc import Iterator, Mapping

PLAIN = (str, int, float, bool, bytes, complex, type(None))
READING = frozenset({"items", "keys", "values", "get", "index", "count", "copy"})
MOST = 2000
"""Values of one table; longer ones are not looked at."""


class Table(NamedTuple):
    """A value of a module of the tests: what holds it by which name, itself, and what was in it."""

    name: str
    where: Mapping[str, Any]
    key: str
    value: Any
    inside: Any

    def changed(self) -> bool:
        """Whether it is another now, or has something else in it."""
        now = self.where.get(self.key, Table)
        return now is not self.value or (self.inside is not None and portrait(now) != self.inside)


def tables(name: str, space: Mapping[str, Any], tree: ast.Module) -> Iterator[Table]:
    """What the text of a module leaves as it is."""
    written = set(_written(tree))
    handed = set(_handed(tree))
    made = {one.id for node in tree.body for one in getattr(node, "targets", ()) if isinstance(one, Name)}
    for key, value in list(space.items()):
        if key in written or key.startswith(("@", "__")) or callable(value):
            continue
        if issubclass(type(value), ModuleType) or type(value) in PLAIN:
            yield Table(f"{name}.{key}", space, key, value, None)
        elif type(value) in (list, tuple, dict, set, frozenset):
            inside = portrait(value) if key in made and key not in handed else None
            yield Table(f"{name}.{key}", space, key, value, inside)


def portrait(value: Any) -> Any:  # noqa: ANN401
    """What is in a table, one level of tuples deep: plain values as they are, others by who they are."""
    if len(value) > MOST:
        return None
    parts = [*value, *value.values()] if type(value) is dict else list(value)
    if type(value) in (set, frozenset):
        return len(parts)
    return [[_seen(part) for part in one] if type(one) is tuple else _seen(one) for one in parts]


def _seen(value: Any) -> Any:  # noqa: ANN401
    return (type(value), value) if type(value) in PLAIN else id(value)


def _written(tree: ast.Module) -> Iterator[str]:
    """Names that functions of the module rebind, and names of attributes that anybody there assigns."""
    for node in walk(tree):
        if isinstance(node, Global):
            yield from node.names
        elif isinstance(node, (Attribute, Name)) and isinstance(node.ctx, Store):
            if isinstance(node, Attribute):
                yield node.attr
        elif isinstance(node, Call):
            yield from (one.value for one in node.args if isinstance(one, Constant) and type(one.value) is str)


def _handed(tree: ast.Module) -> Iterator[str]:
    """Names of tables that are used for more than reading."""
    reading: set[int] = set()
    decorators: list[expr] = []
    for node in walk(tree):
        decorators += getattr(node, "decorator_list", ())
        if isinstance(node, (For, comprehension)):
            reading.add(id(node.iter))
        elif isinstance(node, Subscript) and not isinstance(node.ctx, Store):
            reading.add(id(node.value))
        elif isinstance(node, Compare):
            reading.update(id(one) for one in (node.left, *node.comparators))
        elif isinstance(node, Attribute) and node.attr in READING:
            reading.add(id(node.value))
        elif isinstance(node, Call) and isinstance(node.func, Name) and node.func.id in {"len", "sorted", "set"}:
            reading.update(id(one) for one in node.args)
        elif isinstance(node, Assign):
            reading.update(id(one) for one in node.targets if isinstance(one, Name))
        elif isinstance(node, AugAssign):
            reading.discard(id(node.target))
    reading.update(id(one) for decorator in decorators for one in walk(decorator))
    for node in walk(tree):
        if isinstance(node, Name) and id(node) not in reading:
            yield node.id
