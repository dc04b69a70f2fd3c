"""Watches over the test runner: which of its functions are no longer the ones that were loaded.

Code under test runs in the runner's own process and can change it. Most ways to do so replace a function, a method or
its code, or hook into the runner; each of these shows here. What shows on untouched R as well is told apart outside.
"""

from __future__ import annotations

import hashlib
import os
import sys
import types
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

WATCHED = ("_pytest", "pytest", "pluggy", "unittest", "doctest", "builtins", "math", "operator", "_operator")
PORTRAIT = ("class", "id", "method", "place", "function")
KEPT = ("_inner_hookexec", "hook", "pluginmanager", "config", "items", "_setupstate", "_fixturemanager", "rewrite_hook")
"""Attributes of the session, its configuration and its plugin manager that nobody exchanges after collection."""
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
        self._known_code: dict[int, Any] = {}
        self.manager: Any = None
        """The runner's plugin manager, once there is one."""
        self.functions: list[Any] = []
        """Our own part of the session."""
        self._cells: list[tuple[str, Any, Any]] = []
        self._items: dict[int, tuple[Any, ...]] = {}
        self._functions: list[tuple[str, Any, Any]] = []
        self._collectors: dict[int, tuple[Any, Any, list[str]]] = {}
        self._callers: dict[str, tuple[Any, ...]] = {}
        self._objects: list[tuple[str, Any, Any, dict[str, Any]]] = []
        self._plugin_folders: tuple[str, ...] = ()

    def __call__(self) -> list[str]:
        """Names that changed since the first look and were not told yet."""
        if not self._marks:
            self._marks = list(_marks())
            self._cells = [
                (f"cell of {function.__name__}", cell, cell.cell_contents)
                for function in self.functions
                for cell in function.__closure__ or ()
            ]
            hooks = {} if self.manager is None else vars(self.manager.hook)
            self._callers = {name: _caller(caller) for name, caller in hooks.items()}
            self._functions = [(name, one, one.function) for name, one in self._hooks()]
            own = (getattr(implementation.function, "__code__", None) for _, implementation in self._hooks())
            self._known_code = {id(code): code for code in (*_loaded_code(), *own)}
            return []
        changed = [
            name
            for name, where, key, value, function, code, defaults in self._marks
            if where.get(key, _NOTHING) is not value
            or (function is not None and (function.__code__ is not code or function.__defaults__ is not defaults))
        ]
        changed += [name for name, cell, value in self._cells if cell.cell_contents is not value]
        return self._news([*changed, *self._new_hooks(), *self._changed_session()])

    def _news(self, changed: list[str]) -> list[str]:
        news = sorted(set(changed) - self._told)
        self._told.update(news)
        return news

    def watch_session(self, session: Any, items: list[Any]) -> list[str]:  # noqa: ANN401
        """Watch the objects of the session too, as they are after collection: what an instance has hides its class.

        Returns what already does: code under test may have been faster than the end of the collection.
        """
        runner = os.path.dirname(_runner_file())  # noqa: PTH120
        files = [getattr(plugin, "__file__", None) or "" for plugin in self.manager.get_plugins()]
        self._plugin_folders = tuple(
            file if folder.endswith("-packages") else folder + "/"  # a plugin may be a single file
            for file, folder in ((file, os.path.dirname(file)) for file in files)  # noqa: PTH120
            if "-packages/" in file and not file.startswith(runner)
        )
        self._items = {id(item): _portrait(item) for item in items}
        parents = {id(node): node for item in items for node in item.listchain()[:-1]}
        for name, one in [("session", session), ("config", session.config), ("plugin manager", self.manager)]:
            kept = {key: vars(one).get(key) for key in KEPT if key in vars(one)}
            self._objects.append((name, one, type(one), {**dict.fromkeys(_hiding(one)), **kept}))
        self._collectors = {key: (one, type(one), _hiding(one)) for key, one in parents.items()}
        hiding = [f"test item {item.nodeid}: method {key}" for item in items for key in _hiding(item)]
        return self._news(hiding + [f"{name}.{key}" for name, one, *_ in self._objects for key in _hiding(one)])

    def item(self, item: Any) -> list[str]:  # noqa: ANN401
        """What of a test and of the session is not as it was after collection."""
        before = self._items.get(id(item))
        if before is None:
            return []
        now = _portrait(item)
        changed = [part for part, was, is_now in zip(PORTRAIT, before, now) if was is not is_now and was != is_now]  # noqa: B905
        if before[-1] is not now[-1] and self._is_plugins(now[-1]):
            changed = [part for part in changed if part != PORTRAIT[-1]]
        for node in item.listchain()[:-1]:
            _, kind, hiding = self._collectors.get(id(node), (None, None, None))
            if type(node) is not kind or _hiding(node) != hiding:
                changed.append(f"collector {node.nodeid}")
        return self._news([*(f"test item {item.nodeid}: {part}" for part in changed), *self._changed_session()])

    def _is_plugins(self, function: Any) -> bool:  # noqa: ANN401
        """Whether a plugin that setup installed put its own around the test, as those for coroutines do."""
        code = getattr(function, "__code__", None) if type(function) is types.FunctionType else None
        return code is not None and code.co_filename.startswith(self._plugin_folders or ("\0",))

    def _changed_session(self) -> Iterator[str]:
        yield from (f"function of hook {name}" for name, one, was in self._functions if one.function is not was)
        for name, was in self._callers.items():
            caller = vars(self.manager.hook).get(name)
            if any(now is not then for now, then in zip(_caller(caller), was)):  # noqa: B905
                yield f"hook caller {name}"
        for name, one, kind, known in self._objects:
            if type(one) is not kind:
                yield f"class of the {name}"
            yield from (f"{name}.{key}" for key in _hiding(one) if key not in known)
            yield from (
                f"{name}.{key}" for key in KEPT if key in known and vars(one).get(key, _NOTHING) is not known[key]
            )

    def watch_tests(self) -> None:
        """Watch the tests themselves too, as they are after collection: code under test can reach them as well."""
        for name, module in self._test_modules():
            self._marks += _module_marks(name, module)

    def test_code(self) -> Iterator[tuple[str, str, dict[str, str]]]:
        """Every loaded module of the tests: its name, its file, and a digest of each function written in that file."""
        for name, module in self._test_modules():
            file = module.__file__ or ""
            found = {
                mark.name: code_digest(mark.function.__code__)
                for mark in _module_marks(name, module)
                if mark.function is not None and mark.function.__code__.co_filename == file
            }
            yield name, file, found

    def strange_tests(self, expected: Mapping[str, Any]) -> list[str]:
        """What differs from the same modules on R: code under test may have been faster than their import."""
        strange = []
        for name, (file, functions) in expected.items():
            module = sys.modules.get(name)
            if module is None:
                continue
            if getattr(module, "__file__", None) != file:
                strange.append(f"module {name} is not {file}")
                continue
            now = {mark.name: mark for mark in _module_marks(name, module)}
            strange += [
                f"test code {key}" for key, wanted in functions.items() if key in now and not _is(now[key], wanted)
            ]
        return strange

    def _test_modules(self) -> Iterator[tuple[str, types.ModuleType]]:
        for name, module in list(sys.modules.items()):
            file = getattr(module, "__file__", None) or ""
            if file.startswith(self._workspace) and is_test(file[len(self._workspace) :]):
                yield name, module

    def _new_hooks(self) -> Iterator[str]:
        """Hooks of the runner whose code was not loaded at the first look: of conftests, and of whoever else."""
        for name, implementation in self._hooks():
            code = getattr(implementation.function, "__code__", None)
            if id(code) not in self._known_code:
                plugin = str(implementation.plugin_name)
                owner = type(implementation.plugin).__name__ if plugin.isdigit() else plugin
                yield f"hook {name} of {owner} in {getattr(code, 'co_filename', '')}"

    def _hooks(self) -> Iterator[tuple[str, Any]]:
        hooks = {} if self.manager is None else vars(self.manager.hook)
        for name, caller in list(hooks.items()):
            for implementation in caller.get_hookimpls() if hasattr(caller, "get_hookimpls") else ():
                yield name, implementation


def _portrait(item: Any) -> tuple[Any, ...]:  # noqa: ANN401
    """What decides what a test does and how it is reported; the parts are named in `PORTRAIT`."""
    own = vars(item)
    function = own.get("_obj") or getattr(item, "obj", None)
    function = getattr(function, "__func__", function)
    where = [getattr(item, key, None) for key in ("config", "session", "parent")]
    return (type(item), item.nodeid, sorted(_hiding(item)), [id(one) for one in where], function)


def _hiding(one: Any) -> list[str]:  # noqa: ANN401
    """Attributes of an instance in front of methods of its class."""
    kind = type(one)
    return [key for key in vars(one) if type(getattr(kind, key, None)) is types.FunctionType]


def _caller(caller: Any) -> tuple[Any, ...]:  # noqa: ANN401
    """What a hook is called by. Slots in newer versions of pluggy, attributes in older ones."""
    return (caller, getattr(caller, "_hookexec", None), type(caller))


def _runner_file() -> str:
    return getattr(sys.modules.get("_pytest"), "__file__", None) or "\0"


def _marks() -> Iterator[Mark]:
    for name, module in list(sys.modules.items()):
        if name.split(".")[0] not in WATCHED or not isinstance(module, types.ModuleType):
            continue
        yield Mark(f"module {name}", sys.modules, name, module, None, None, None)
        yield from _module_marks(name, module)


def _loaded_code() -> Iterator[types.CodeType]:
    """Of every function and method in every loaded module."""
    for name, module in list(sys.modules.items()):
        if isinstance(module, types.ModuleType):
            yield from (mark.code for mark in _module_marks(name, module) if mark.code is not None)


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


def _is(mark: Mark, wanted: str) -> bool:
    """Whether a function, or what it honestly wraps, is the code that R has."""
    function = mark.function
    for _ in range(10):
        if type(function) is types.FunctionType and code_digest(function.__code__) == wanted:
            return True
        function = getattr(function, "__wrapped__", None)
    return False


def code_digest(code: types.CodeType) -> str:
    """Of what code does, not of where it is."""
    whole = hashlib.sha256(code.co_code + repr((code.co_names, code.co_varnames, code.co_freevars)).encode())
    for constant in code.co_consts:
        inner = code_digest(constant) if isinstance(constant, types.CodeType) else _constant(constant)
        whole.update(inner.encode("utf-8", "backslashreplace"))
    return whole.hexdigest()[:32]


def _constant(value: object) -> str:
    """A constant as text that is the same in every process: the order of a set is not."""
    return repr(sorted(map(repr, value))) if isinstance(value, frozenset) else repr(value)
