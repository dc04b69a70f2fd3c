"""Watches over the test runner: which of its functions are no longer the ones that were loaded.

Code under test runs in the runner's own process and can change it. Most ways to do so replace a function, a method or
its code, or hook into the runner; each of these shows here. What shows on untouched R as well is told apart outside.
"""

from __future__ import annotations

import sys
import types
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

WATCHED = ("_pytest", "pytest", "pluggy", "unittest", "doctest", "builtins", "math", "operator", "_operator")
_NOTHING = object()


class Mark(NamedTuple):
    """A name, where it is kept, and what it meant at first. `function` is None where there is no code to change."""

    name: str
    where: Mapping[str, Any]
    key: str
    value: Any
    function: Any
    code: Any
    defaults: Any


class Sentinel:
    """The first look remembers, later ones compare. A look costs well under a millisecond."""

    def __init__(self, workspace: str) -> None:
        self._workspace = workspace.rstrip("/") + "/"
        self._marks: list[Mark] = []
        self._told: set[str] = set()
        self.manager: Any = None
        """The runner's plugin manager, once there is one."""

    def __call__(self) -> list[str]:
        """Names that changed since the first look and were not told yet."""
        if not self._marks:
            self._marks = list(_marks())
            return []
        changed = [
            name
            for name, where, key, value, function, code, defaults in self._marks
            if where.get(key, _NOTHING) is not value
            or (function is not None and (function.__code__ is not code or function.__defaults__ is not defaults))
        ]
        news = sorted({*changed, *self._foreign_hooks()} - self._told)
        self._told.update(news)
        return news

    def watch_tests(self) -> None:
        """Watch the tests themselves too, as they are after collection: code under test can reach them as well."""
        for name, module in list(sys.modules.items()):
            file = getattr(module, "__file__", None) or ""
            if file.startswith(self._workspace) and is_test(file[len(self._workspace) :]):
                self._marks += _module_marks(name, module)

    def _foreign_hooks(self) -> Iterator[str]:
        """Hooks of the runner that are implemented in the workspace, elsewhere than in a conftest."""
        hooks = {} if self.manager is None else vars(self.manager.hook)
        for name, caller in list(hooks.items()):
            for implementation in caller.get_hookimpls() if hasattr(caller, "get_hookimpls") else ():
                code = getattr(implementation.function, "__code__", None)
                file = getattr(code, "co_filename", "")
                if file.startswith(self._workspace) and not file.endswith("/conftest.py"):
                    yield f"hook {name} in {file}"


def _marks() -> Iterator[Mark]:
    for name, module in list(sys.modules.items()):
        if name.split(".")[0] not in WATCHED or not isinstance(module, types.ModuleType):
            continue
        yield Mark(f"module {name}", sys.modules, name, module, None, None, None)
        yield from _module_marks(name, module)


def _module_marks(name: str, module: types.ModuleType) -> Iterator[Mark]:
    for key, value in list(vars(module).items()):
        if callable(value):
            yield _mark(f"{name}.{key}", vars(module), key, value)
        if isinstance(value, type) and value.__module__ == name:
            for attribute, member in list(vars(value).items()):
                if callable(member) or isinstance(member, (classmethod, staticmethod, property)):
                    yield _mark(f"{name}.{key}.{attribute}", vars(value), attribute, member)


def is_test(path: str) -> bool:
    """Whether a file of the workspace belongs to its tests, by where it is and what it is called."""
    *folders, name = path.split("/")
    named = name.startswith("test_") or name.endswith("_test.py") or name == "conftest.py"
    return named or "tests" in folders or "test" in folders


def _mark(name: str, where: Mapping[str, Any], key: str, value: Any) -> Mark:  # noqa: ANN401
    function = getattr(value, "__func__", value)
    function = getattr(function, "fget", function)
    if type(function) is not types.FunctionType:  # a proxy may call itself one and give new code every time
        function = None
    return Mark(
        name, where, key, value, function, getattr(function, "__code__", None), getattr(function, "__defaults__", None)
    )
