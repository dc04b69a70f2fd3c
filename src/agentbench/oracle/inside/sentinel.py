"""Watches over the test runner: which of its functions are no longer the ones that were loaded.

Code under test runs in the runner's own process and can change it. Most ways to do so replace a function, a method or
its code, or hook into the runner; each of these shows here. What shows on untouched R as well is told apart outside.
"""

from __future__ import annotations

import builtins
import sys
import types
from collections.abc import Iterator
from typing import Any

WATCHED = ("_pytest", "pytest", "pluggy", "unittest", "doctest", "builtins", "math", "operator", "_operator")
Mark = tuple[object, object, object]


class Sentinel:
    """The first look remembers, later ones compare."""

    def __init__(self, workspace: str) -> None:
        self._workspace = workspace.rstrip("/") + "/"
        self.manager: Any = None
        """The runner's plugin manager, once there is one."""
        self._first: dict[str, Mark] = {}
        self._told: set[str] = set()

    def __call__(self) -> list[str]:
        """Names that changed since the first look and were not told yet."""
        if not self._first:
            self._first = dict(_marks())
            return []
        now = dict(_marks())
        changed = {name for name, mark in self._first.items() if not _same(mark, now.get(name))}
        changed |= set(self._foreign_hooks())
        news = sorted(changed - self._told)
        self._told |= changed
        return news

    def _foreign_hooks(self) -> Iterator[str]:
        """Hooks of the runner that are implemented in the workspace, elsewhere than in a conftest."""
        hooks = {} if self.manager is None else vars(self.manager.hook)
        for name, caller in list(hooks.items()):
            for implementation in caller.get_hookimpls() if hasattr(caller, "get_hookimpls") else ():
                code = getattr(implementation.function, "__code__", None)
                file = getattr(code, "co_filename", "")
                if file.startswith(self._workspace) and not file.endswith("/conftest.py"):
                    yield f"hook {name} in {file}"


def _marks() -> Iterator[tuple[str, Mark]]:
    for name, module in list(sys.modules.items()):
        if name.split(".")[0] not in WATCHED or not isinstance(module, types.ModuleType):
            continue
        for key, value in list(vars(module).items()):
            if isinstance(value, type) and value.__module__ == name:
                yield f"{name}.{key}", (value, None, None)
                for attribute, member in list(vars(value).items()):
                    if callable(member) or isinstance(member, (classmethod, staticmethod, property)):
                        yield f"{name}.{key}.{attribute}", _mark(member)
            elif callable(value):
                yield f"{name}.{key}", _mark(value)
    for key in ("__build_class__", "__import__"):
        yield f"builtins.{key}", _mark(getattr(builtins, key))


def _mark(value: object) -> Mark:
    function = getattr(value, "__func__", value)
    function = getattr(function, "fget", function)
    return (value, getattr(function, "__code__", None), getattr(function, "__defaults__", None))


def _same(first: Mark, second: Mark | None) -> bool:
    return second is not None and all(one is other for one, other in zip(first, second))  # noqa: B905 - `strict` is younger than the Pythons this runs on
