"""Watches over the test runner: which of its functions are no longer the ones that were loaded.

Code under test runs in the runner's own process and can change it. Most ways to do so replace a function, a method or
its code, or hook into the runner; each of these shows here. What shows on untouched R as well is told apart outside.
"""

from __future__ import annotations

import ast
import builtins
import hashlib
import os
import sys
import types
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

WATCHED = ("_pytest", "pytest", "pluggy", "unittest", "doctest", "builtins", "math", "operator", "_operator")
PORTRAIT = ("class", "id", "method", "place", "function")
KEPT = ("_inner_hookexec", "hook", "pluginmanager", "config", "items", "_setupstate", "_fixturemanager", "rewrite_hook")
"""Attributes of the session, its configuration and its plugin manager that nobody exchanges after collection."""
CLOCK = frozenset({"time", "time_ns", "perf_counter", "monotonic", "sleep", "localtime", "datetime", "date"})
_NOTHING = object()
_MODULE_SPACE: Any = vars(types.ModuleType)["__dict__"]
_CLASS_SPACE: Any = vars(type)["__dict__"]
_BUILTINS = frozenset(name for name in vars(builtins) if not name.startswith("__"))


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

    def __init__(self, workspace: str, replaced: Iterable[str] = (), conftests: Iterable[str] = ()) -> None:
        self._workspace = workspace.rstrip("/") + "/"
        self._replaced = frozenset(replaced)
        self._written = {file: _written_code(file) for file in conftests}
        """Code in the conftests of R, read before anything of the workspace can run."""
        self._marks: list[Mark] = []
        self._told: set[str] = set()
        self._known_code: dict[int, Any] = {}
        self.manager: Any = None
        """The runner's plugin manager, once there is one."""
        self.functions: list[Any] = []
        """Our own part of the session."""
        self._cells: list[tuple[str, Any, Any]] = []
        self._grounds: list[tuple[dict[str, Any], dict[str, Any]]] = []
        """What our own part of the session finds by name, and what it found at first."""
        self._spaces: list[tuple[str, Mapping[str, Any], frozenset[str]]] = []
        """Modules of the tests, and what of Python's own they had another meaning for."""
        self._items: dict[int, tuple[Any, ...]] = {}
        self._functions: list[tuple[str, Any, Any]] = []
        self._collectors: dict[int, tuple[Any, Any, list[str]]] = {}
        self._callers: dict[str, tuple[Any, ...]] = {}
        self._objects: list[tuple[str, Any, Any, dict[str, Any]]] = []
        self._plugin_folders: tuple[str, ...] = ()
        self._conftests: dict[int, types.CodeType] = {}

    def __call__(self, *, testing: bool = False) -> list[str]:
        """Names that changed since the first look and were not told yet.

        `testing`: a test may be at work, so what the tests say they replace may be something else for now.
        """
        if not self._marks:
            self._marks = list(_marks())
            self._cells = [
                (f"cell of {function.__name__}", cell, cell.cell_contents)
                for function in self.functions
                for cell in function.__closure__ or ()
            ]
            grounds = {id(function.__globals__): function.__globals__ for function in self.functions}
            self._grounds = [(where, dict(where)) for where in grounds.values()]
            hooks = {} if self.manager is None else vars(self.manager.hook)
            self._callers = {name: _caller(caller) for name, caller in hooks.items()}
            self._functions = [(name, one, one.function) for name, one in self._hooks()]
            own = (_code(implementation.function) for _, implementation in self._hooks())
            self._known_code = {id(code): code for code in (*_loaded_code(), *own)}
            return []
        changed = [
            name
            for name, where, key, value, function, code, defaults in self._marks
            if (where.get(key, _NOTHING) is not value and not (testing and self._is_tests(name, key, where.get(key))))
            or (function is not None and (function.__code__ is not code or function.__defaults__ is not defaults))
        ]
        changed += [name for name, cell, value in self._cells if cell.cell_contents is not value]
        changed += [
            f"names of our own part: {key}"
            for where, known in self._grounds
            for key in {*where, *known}
            if where.get(key, _NOTHING) is not known.get(key, _NOTHING)
        ]
        changed += [
            f"{name} has its own {key}"
            for name, where, known in self._spaces
            for key in (where.keys() & _BUILTINS) - known
        ]
        return self._news([*changed, *self._new_hooks(), *self._changed_session()])

    def _is_tests(self, name: str, key: str, value: Any) -> bool:  # noqa: ANN401
        """Whether tests replace this name themselves, and code under test is not what came in its place.

        Who freezes time does so wherever it is read, in the runner too.
        """
        code = _code(value)
        file = code.co_filename if code is not None else ""
        clock = key in CLOCK and name.startswith("_pytest.")
        return (clock or key.rpartition(".")[2] in self._replaced) and not self._is_product(file)

    def _news(self, changed: list[str]) -> list[str]:
        news = sorted(set(changed) - self._told)
        self._told.update(news)
        return news

    def watch_session(self, session: Any, items: list[Any]) -> list[str]:  # noqa: ANN401
        """Watch the objects of the session too, as they are after collection: what an instance has hides its class.

        Returns what already does: code under test may have been faster than the end of the collection.
        """
        runner = os.path.dirname(_runner_file())  # noqa: PTH120
        files = [_file(plugin) for plugin in self.manager.get_plugins()]
        self._plugin_folders = tuple(
            file if folder.endswith("-packages") else folder + "/"  # a plugin may be a single file
            for file, folder in ((file, os.path.dirname(file)) for file in files)  # noqa: PTH120
            if "-packages/" in file and not file.startswith(runner)
        )
        self._conftests = {
            id(code): code
            for _, module in self._test_modules()
            if _file(module).endswith("/conftest.py")
            for mark in _module_marks("", module)
            if mark.code is not None
            for code in _inner_code(mark.code)
        }
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
        changed = [part for part, was, is_now in zip(PORTRAIT, before, now) if not _same(was, is_now)]  # noqa: B905
        if before[-1] is not now[-1] and (self._is_plugins(now[-1]) or self._is_conftests(now[-1], before[-1])):
            changed = [part for part in changed if part != PORTRAIT[-1]]
        for node in item.listchain()[:-1]:
            _, kind, hiding = self._collectors.get(id(node), (None, None, None))
            if type(node) is not kind or not _same(hiding, _hiding(node)):
                changed.append(f"collector {node.nodeid}")
        return self._news([*(f"test item {item.nodeid}: {part}" for part in changed), *self._changed_session()])

    def _is_plugins(self, function: Any) -> bool:  # noqa: ANN401
        """Whether a plugin that setup installed put its own around the test, as those for coroutines do."""
        code = getattr(function, "__code__", None) if type(function) is types.FunctionType else None
        return code is not None and code.co_filename.startswith(self._plugin_folders or ("\0",))

    def _is_conftests(self, function: Any, original: Any) -> bool:  # noqa: ANN401
        """Whether a conftest of the project put its own around the test: its code, and the test still inside."""
        code = function.__code__ if type(function) is types.FunctionType else None
        return id(code) in self._conftests and _holds(function, original)

    def _changed_session(self) -> Iterator[str]:
        yield from (f"function of hook {name}" for name, one, was in self._functions if one.function is not was)
        registered = {id(one) for _, one in self._hooks()}
        yield from (
            f"hook {name} without its function" for name, one, _ in self._functions if id(one) not in registered
        )
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
            space = _space(module)
            self._spaces.append((f"test module {name}", space, frozenset(space.keys() & _BUILTINS)))

    def test_code(self) -> Iterator[tuple[str, str, dict[str, str]]]:
        """Every loaded module of the tests: its name, its file, and a digest of each function written in that file."""
        for name, module in self._test_modules():
            file = module.__file__ or ""
            others = self._decorated(module)
            found = {
                mark.name: code_digest(mark.function.__code__)
                for mark in _module_marks(name, module)
                if mark.function is not None and mark.function.__code__.co_filename == file
            }
            yield (
                name,
                file,
                {key: one for key, one in found.items() if others.isdisjoint(_above(key[len(name) + 1 :]))},
            )

    def _decorated(self, module: types.ModuleType) -> set[str]:
        """Functions and classes that code under test decorates: it may rewrite them, and a fix may change how."""
        try:
            with open(module.__file__ or "", "rb") as source:  # noqa: PTH123
                tree = ast.parse(source.read())
        except (OSError, ValueError, SyntaxError, RecursionError, MemoryError):
            return set()
        found = set()
        for name, decorators in _decorations(tree.body, ""):
            files = (_origin(module, decorator) for decorator in decorators)
            if any(self._is_product(file) for file in files):
                found.add(name)
        return found

    def _is_product(self, file: str) -> bool:
        return file.startswith(self._workspace) and not is_test(file[len(self._workspace) :])

    def strange_tests(self, expected: Mapping[str, Any]) -> list[str]:
        """What differs from the same modules on R: code under test may have been faster than their import."""
        strange = []
        for name, (file, functions) in expected.items():
            module = sys.modules.get(name)
            if module is None:
                continue
            if _file(module) != file:
                strange.append(f"module {name} is not {file}")
                continue
            now = {mark.name: mark for mark in _module_marks(name, module)}
            strange += [
                f"test code {key}" for key, wanted in functions.items() if key in now and not _is(now[key], wanted)
            ]
        return strange

    def _test_modules(self) -> Iterator[tuple[str, types.ModuleType]]:
        for name, module in list(sys.modules.items()):
            file = _file(module)
            if file.startswith(self._workspace) and is_test(file[len(self._workspace) :]):
                yield name, module

    def _new_hooks(self) -> Iterator[str]:
        """Hooks of the runner whose code was not loaded at the first look: of conftests, and of whoever else."""
        for name, implementation in self._hooks():
            code = _code(implementation.function)
            if id(code) not in self._known_code and not self._is_written(implementation.plugin, code):
                plugin = implementation.plugin_name if type(implementation.plugin_name) is str else "0"
                owner = type(implementation.plugin).__name__ if plugin.isdigit() else plugin
                yield f"hook {name} of {owner} in {code.co_filename if code is not None else ''}"

    def _is_written(self, plugin: Any, code: Any) -> bool:  # noqa: ANN401
        """Whether a hook is what a conftest of R says: it may need what only the fix brings, so that R does not have it."""
        known = self._written.get(_file(plugin), frozenset())
        return type(code) is types.CodeType and code_digest(code) in known

    def _hooks(self) -> Iterator[tuple[str, Any]]:
        hooks = {} if self.manager is None else vars(self.manager.hook)
        for name, caller in list(hooks.items()):
            # A stranger in its place is told as such, and not asked anything.
            if name in self._callers and type(caller) is not self._callers[name][-1]:
                continue
            for implementation in caller.get_hookimpls() if hasattr(caller, "get_hookimpls") else ():
                if type(implementation).__module__.startswith("pluggy"):
                    yield name, implementation


def _portrait(item: Any) -> tuple[Any, ...]:  # noqa: ANN401
    """What decides what a test does and how it is reported; the parts are named in `PORTRAIT`."""
    # What is not there yet is not asked for: code under test could answer.
    function = vars(item).get("_obj")
    if type(function) is types.MethodType:
        function = function.__func__
    where = [getattr(item, key, None) for key in ("config", "session", "parent")]
    return (type(item), item.nodeid, sorted(_hiding(item)), [id(one) for one in where], function)


def _same(was: Any, is_now: Any) -> bool:  # noqa: ANN401
    """Compared without asking either. A test that had no function yet may get one: its class is watched."""
    if was is is_now or was is None:
        return True
    return type(was) is type(is_now) and type(was) in (str, list) and bool(was == is_now)


def _space(thing: Any) -> Mapping[str, Any]:  # noqa: ANN401
    """The names of a module, read past whatever it has to say about that itself."""
    return _MODULE_SPACE.__get__(thing) if issubclass(type(thing), types.ModuleType) else {}


def _file(module: Any) -> str:  # noqa: ANN401
    file = _space(module).get("__file__")
    return file if type(file) is str else ""


def _code(value: Any) -> types.CodeType | None:  # noqa: ANN401
    function = _function(value)
    return None if function is None else function.__code__


def _function(value: Any) -> types.FunctionType | None:  # noqa: ANN401
    """The function that a plain wrapper of Python's own has, or that this is. Nobody else is asked."""
    if type(value) in (types.MethodType, classmethod, staticmethod):
        value = value.__func__
    elif type(value) is property:
        value = value.fget
    return value if type(value) is types.FunctionType else None


def _above(name: str) -> Iterator[str]:
    """`a.b` and `a` of `a.b`."""
    parts = name.split(".")
    return (".".join(parts[:count]) for count in range(1, len(parts) + 1))


def _decorations(body: list[ast.stmt], within: str) -> Iterator[tuple[str, list[ast.expr]]]:
    """Functions and classes with their decorators, by the name that they have in their module."""
    for node in body:
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            yield within + node.name, node.decorator_list
            if isinstance(node, ast.ClassDef):
                yield from _decorations(node.body, f"{within}{node.name}.")
        else:
            for part in ("body", "orelse", "finalbody"):
                yield from _decorations(getattr(node, part, None) or [], within)


def _origin(module: types.ModuleType, decorator: ast.expr) -> str:
    """The file that a decorator comes from, as far as the first part of its name tells."""
    while isinstance(decorator, (ast.Call, ast.Attribute)):
        decorator = decorator.func if isinstance(decorator, ast.Call) else decorator.value
    found = vars(module).get(decorator.id) if isinstance(decorator, ast.Name) else None
    if type(found) is types.FunctionType or issubclass(type(found), type):
        found = sys.modules.get(str(found.__module__))
    elif not isinstance(found, types.ModuleType):
        found = sys.modules.get(str(type(found).__module__))
    return getattr(found, "__file__", None) or ""


def _inner_code(code: types.CodeType) -> Iterator[types.CodeType]:
    """Of the functions that a function makes."""
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield constant
            yield from _inner_code(constant)


def _holds(function: Any, original: Any, depth: int = 4) -> bool:  # noqa: ANN401
    """Whether a function has another in its cells, or in the cells of one that it has there."""
    if type(function) is types.MethodType:
        function = function.__func__
    if function is original:
        return True
    if depth == 0 or type(function) is not types.FunctionType:
        return False
    for cell in function.__closure__ or ():
        try:
            held = cell.cell_contents
        except ValueError:  # nothing in it yet
            continue
        if _holds(held, original, depth - 1):
            return True
    return False


def _hiding(one: Any) -> list[str]:  # noqa: ANN401
    """Attributes of an instance in front of methods of its class."""
    kind = type(one)
    return [key for key in vars(one) if type(key) is not str or type(getattr(kind, key, None)) is types.FunctionType]


def _caller(caller: Any) -> tuple[Any, ...]:  # noqa: ANN401
    """What a hook is called by. Slots in newer versions of pluggy, attributes in older ones."""
    return (caller, getattr(caller, "_hookexec", None), type(caller))


def _runner_file() -> str:
    return getattr(sys.modules.get("_pytest"), "__file__", None) or "\0"


def _marks() -> Iterator[Mark]:
    for name, module in list(sys.modules.items()):
        if name.split(".")[0] not in WATCHED or not issubclass(type(module), types.ModuleType):
            continue
        yield Mark(f"module {name}", sys.modules, name, module, None, None, None)
        yield from _module_marks(name, module)


def _loaded_code() -> Iterator[types.CodeType]:
    """Of every function and method in every loaded module."""
    for name, module in list(sys.modules.items()):
        if issubclass(type(module), types.ModuleType):
            yield from (mark.code for mark in _module_marks(name, module) if mark.code is not None)


def _module_marks(name: str, module: types.ModuleType) -> Iterator[Mark]:
    space = _space(module)
    for key, value in list(space.items()):
        if callable(value):
            yield _mark(f"{name}.{key}", space, key, value)
        within = _CLASS_SPACE.__get__(value) if issubclass(type(value), type) else {}
        if not within or within.get("__module__", "builtins") != name:
            continue
        for attribute, member in list(within.items()):
            if callable(member) or type(member) in (classmethod, staticmethod, property):
                yield _mark(f"{name}.{key}.{attribute}", within, attribute, member)


def is_test(path: str) -> bool:
    """Whether a file of the workspace belongs to its tests, by where it is and what it is called."""
    *folders, name = path.split("/")
    named = name.startswith("test_") or name.endswith("_test.py") or name == "conftest.py"
    return named or "tests" in folders or "test" in folders


def _mark(name: str, where: Mapping[str, Any], key: str, value: Any) -> Mark:  # noqa: ANN401
    function = _function(value)
    code, defaults = (None, None) if function is None else (function.__code__, function.__defaults__)
    return Mark(name, where, key, value, function, code, defaults)


def _is(mark: Mark, wanted: str) -> bool:
    """Whether a function, or what it honestly wraps, is the code that R has."""
    function = mark.function
    for _ in range(10):
        if type(function) is not types.FunctionType:
            break
        if code_digest(function.__code__) == wanted:
            return True
        function = vars(function).get("__wrapped__")
    return False


def code_digest(code: types.CodeType) -> str:
    """Of what code does, not of where it is."""
    whole = hashlib.sha256(code.co_code + repr((code.co_names, code.co_varnames, code.co_freevars)).encode())
    for constant in code.co_consts:
        inner = code_digest(constant) if isinstance(constant, types.CodeType) else _constant(constant)
        whole.update(inner.encode("utf-8", "backslashreplace"))
    return whole.hexdigest()[:32]


def _written_code(file: str) -> frozenset[str]:
    """Digests of every function in a file."""
    try:
        with open(file, "rb") as source:  # noqa: PTH123
            module = compile(source.read(), file, "exec", dont_inherit=True)
    except (OSError, ValueError, SyntaxError, RecursionError, MemoryError):
        return frozenset()
    return frozenset(code_digest(code) for code in _inner_code(module))


def _constant(value: object) -> str:
    """A constant as text that is the same in every process: the order of a set is not."""
    return repr(sorted(map(repr, value))) if isinstance(value, frozenset) else repr(value)
