"""Records the constants of test modules, so that a change made by code under test is noticed.

A test module may change its own lists while it runs, and imported values belong to other modules. So only values count
that the module's source creates and never writes to or passes on.
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

PLAIN_TYPES = (str, int, float, bool, bytes, complex, type(None))
READ_METHODS = frozenset({"items", "keys", "values", "get", "index", "count", "copy"})
MAX_VALUES = 2000
"""Larger containers are not compared."""


class ConstantSnapshot(NamedTuple):
    """A value of a test module: the namespace and key that hold it, the value, and its contents."""

    name: str
    namespace: Mapping[str, Any]
    key: str
    value: Any
    contents: Any

    def changed(self) -> bool:
        """Return whether the name was rebound or the contents are different."""
        now = self.namespace.get(self.key, ConstantSnapshot)
        return now is not self.value or (self.contents is not None and contents_of(now) != self.contents)


def snapshot_constants(name: str, namespace: Mapping[str, Any], tree: ast.Module) -> Iterator[ConstantSnapshot]:
    """Yield the values that the source of a module never changes."""
    rebound = set(_rebound_names(tree))
    passed_on = set(_passed_on_names(tree))
    assigned = {target.id for node in tree.body for target in getattr(node, "targets", ()) if isinstance(target, Name)}
    for key, value in list(namespace.items()):
        if key in rebound or key.startswith(("@", "__")) or callable(value):
            continue
        if issubclass(type(value), ModuleType) or type(value) in PLAIN_TYPES:
            yield ConstantSnapshot(f"{name}.{key}", namespace, key, value, None)
        elif type(value) in (list, tuple, dict, set, frozenset):
            contents = contents_of(value) if key in assigned and key not in passed_on else None
            yield ConstantSnapshot(f"{name}.{key}", namespace, key, value, contents)


def contents_of(value: Any) -> Any:  # noqa: ANN401
    """Return the contents of a container, tuples one level deep: plain values by value, others by identity."""
    if len(value) > MAX_VALUES:
        return None
    elements = [*value, *value.values()] if type(value) is dict else list(value)
    if type(value) in (set, frozenset):
        return len(elements)
    return [
        [_comparable(part) for part in element] if type(element) is tuple else _comparable(element)
        for element in elements
    ]


def _comparable(value: Any) -> Any:  # noqa: ANN401
    return (type(value), value) if type(value) in PLAIN_TYPES else id(value)


def _rebound_names(tree: ast.Module) -> Iterator[str]:
    """Yield names that functions of the module rebind, and attribute names assigned anywhere in it."""
    for node in walk(tree):
        if isinstance(node, Global):
            yield from node.names
        elif isinstance(node, (Attribute, Name)) and isinstance(node.ctx, Store):
            if isinstance(node, Attribute):
                yield node.attr
        elif isinstance(node, Call):
            yield from (
                argument.value
                for argument in node.args
                if isinstance(argument, Constant) and type(argument.value) is str
            )


def _passed_on_names(tree: ast.Module) -> Iterator[str]:
    """Yield names that are used for more than reading."""
    read_only: set[int] = set()
    decorators: list[expr] = []
    for node in walk(tree):
        decorators += getattr(node, "decorator_list", ())
        if isinstance(node, (For, comprehension)):
            read_only.add(id(node.iter))
        elif isinstance(node, Subscript) and not isinstance(node.ctx, Store):
            read_only.add(id(node.value))
        elif isinstance(node, Compare):
            read_only.update(id(part) for part in (node.left, *node.comparators))
        elif isinstance(node, Attribute) and node.attr in READ_METHODS:
            read_only.add(id(node.value))
        elif isinstance(node, Call) and isinstance(node.func, Name) and node.func.id in {"len", "sorted", "set"}:
            read_only.update(id(part) for part in node.args)
        elif isinstance(node, Assign):
            read_only.update(id(part) for part in node.targets if isinstance(part, Name))
        elif isinstance(node, AugAssign):
            read_only.discard(id(node.target))
    read_only.update(id(part) for decorator in decorators for part in walk(decorator))
    for node in walk(tree):
        if isinstance(node, Name) and id(node) not in read_only:
            yield node.id
