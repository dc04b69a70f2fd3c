"""Ids of unittest: `test_a (package.module.Class)`, since Python 3.11 `test_a (package.module.Class.test_a)`. Pure."""

from __future__ import annotations

import ast
import re
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass

from agentbench.authoring.environment.requirements import Read
from agentbench.core.errors import InputError
from agentbench.core.python_syntax import parse as parse_python

_ID = re.compile(r"(\w+) \(([\w.]+)\)")
REMEDY = "where pytest can run these tests, write their ids as file::Class::test; otherwise leave the row out"


@dataclass(frozen=True, slots=True)
class Named:
    """What such an id says."""

    method: str
    place: str
    """Module and class, with dots; which part is which only files can tell."""


def understand(test: str) -> Named | None:
    match = _ID.fullmatch(test)
    if match is None:
        return None
    method, place = match.groups()
    return Named(method, place.removesuffix(f".{method}") if "." in place else place)


def for_pytest(tests: Sequence[str], paths: Collection[str], read: Read, key: str) -> dict[str, str]:
    """The ids of pytest, each with what the row says. `paths` and `read`: the tree with `test_patch` applied.

    Raises:
        InputError: an id whose file or class is not there.
    """
    homes = _Homes(paths, read)
    found: dict[str, str] = {}
    for test in tests:
        named = understand(test)
        if named is None:
            raise InputError(f"{key}: {test!r} is no test id of unittest as the others of its row are", remedy=REMEDY)
        home = homes.of(named.place)
        if home is None:
            raise InputError(f"{key}: {test!r}: no file of the repository has such a class", remedy=REMEDY)
        found[f"{home}::{named.method}"] = test
    return found


class _Homes:
    """Where classes are."""

    def __init__(self, paths: Collection[str], read: Read) -> None:
        self._paths = sorted(path for path in paths if path.endswith(".py"))
        self._known = frozenset(self._paths)
        self._read = read
        self._classes: dict[str, frozenset[str]] = {}
        self._found: dict[str, str | None] = {}

    def of(self, place: str) -> str | None:
        """`tests.test_mod.Case` → `tests/test_mod.py::Case`; None where nothing or more than one thing is called so."""
        if place not in self._found:
            self._found[place] = self._search(place)
        return self._found[place]

    def _search(self, place: str) -> str | None:
        parts = place.split(".")
        for at in range(len(parts) - 1, 0, -1):
            owner = ".".join(parts[at:])
            holding = [path for path in self._files("/".join(parts[:at])) if owner in self._classes_of(path)]
            if holding:
                return f"{holding[0]}::{owner.replace('.', '::')}" if len(holding) == 1 else None
        return None

    def _files(self, module: str) -> list[str]:
        """Files that a module may be: below the root, or below a folder that the runner was started in."""
        names = (f"{module}.py", f"{module}/__init__.py")
        direct = [name for name in names if name in self._known]
        return direct or [path for path in self._paths if path.endswith(tuple(f"/{name}" for name in names))]

    def _classes_of(self, path: str) -> frozenset[str]:
        if path not in self._classes:
            self._classes[path] = frozenset(_classes(self._read(path) or ""))
        return self._classes[path]


def _classes(text: str) -> Iterator[str]:
    """Names of classes, those within others with the names of those."""
    try:
        tree = parse_python(text)
    except (SyntaxError, ValueError, RecursionError):
        return
    todo: list[tuple[str, ast.AST]] = [("", tree)]
    while todo:
        prefix, node = todo.pop()
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.ClassDef):
                yield prefix + child.name
                todo.append((f"{prefix}{child.name}.", child))
            elif isinstance(child, ast.If | ast.Try | ast.With | ast.ExceptHandler):
                todo.append((prefix, child))
