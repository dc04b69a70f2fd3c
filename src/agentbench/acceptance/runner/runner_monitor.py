"""Detects changes to the test runner: functions of pytest or of the tests that are no longer the ones that were loaded.

Code under test runs in pytest's own process and can change it. The usual ways replace a function, a method or its code,
register a hook, or exchange the function of a collected test; each of these is detected here. Nothing here calls code
that it compares. Changes that also happen on the base repository are filtered out by the harness.
"""

from __future__ import annotations

import builtins
import re
from _operator import is_
from collections.abc import Collection, Iterable, Iterator, Mapping
from importlib.machinery import ModuleSpec
from posix import stat
from sys import modules
from types import (
    FunctionType,
    GetSetDescriptorType,
    MemberDescriptorType,
    MethodType,
    ModuleType,
    WrapperDescriptorType,
)
from typing import Any

WATCHED_PACKAGES = (
    *("_pytest", "pytest", "pluggy", "unittest", "doctest", "builtins", "math", "operator", "_operator"),
    *("_frozen_importlib_external", "ast", "contextlib"),
)
CLOCK_NAMES = frozenset({"time", "time_ns", "perf_counter", "monotonic", "sleep", "localtime", "datetime", "date"})
"""Names that time-freezing packages replace wherever they are read, in pytest too."""
PLAIN_TYPES = (str, int, float, bool, bytes, complex, list, dict, tuple, set, frozenset)
MAX_ELEMENTS = 2000
"""Larger tables are not compared."""
_MISSING = object()
_MEMBERS: dict[int, tuple[type, Mapping[str, Any]]] = {}
"""Classes and their namespaces, by identity."""
_find_written_names = re.compile(r"\bglobal +([\w, ]+)|\.(\w+) *[-+*/|&]?=(?!=)|[\"'](\w+)[\"']").findall
"""Names that a module may write to: declared as global, assigned as an attribute, or given as text."""
_BUILTINS = frozenset(name for name in vars(builtins) if not name.startswith("__"))
# Bound here, before any code under test: names that are looked up later could have been given another meaning.
_MODULE_DICT: Any = vars(ModuleType)["__dict__"]
_CLASS_DICT: Any = vars(type)["__dict__"]
_CLASS_MRO: Any = vars(type)["__mro__"]
_CLASS_NAME: Any = vars(type)["__name__"]
_METHOD_TYPES = (FunctionType, WrapperDescriptorType, property)
_MEMBER_TYPES = (classmethod, staticmethod, property, MemberDescriptorType, GetSetDescriptorType)


class RunnerMonitor:
    """Takes a snapshot at the first check and compares with it at later ones."""

    def __init__(self, workspace: str, patched_names: Iterable[str]) -> None:
        self._workspace = workspace.rstrip("/") + "/"
        self._patched_names = CLOCK_NAMES.union(patched_names)
        """Names that the tests themselves replace while they run."""
        self._modules: dict[str, ModuleType] = {}
        """Modules that code under test must not replace."""
        self._namespaces: list[tuple[str, Mapping[str, Any], tuple[str, ...], dict[str, Any], type | None]] = []
        """Namespaces of modules and classes with their names, the values that must not change, and the class."""
        self._functions: list[tuple[str, FunctionType, Any, Any]] = []
        """Functions in them, each with its code and defaults."""
        self._reported: set[str] = set()
        self.manager: Any = None
        """pytest's plugin manager, once it exists."""
        self._hooks: dict[int, tuple[str, Any, Any]] = {}
        self._pluggy_classes: dict[int, type] = {}
        """Classes of hooks by identity: methods of others are never called."""
        self._session_objects: list[Any] = []
        """Plugin manager and pytest's plugins, which include session and configuration."""
        self._tables: list[tuple[str, Any, list[Any]]] = []
        """Lists and dictionaries of test modules with their elements."""
        self._items: dict[int, tuple[Any, ...]] = {}

    def changes(self, *, testing: bool = False) -> list[str]:
        """Return names that changed since the first check and were not reported yet.

        With `testing`, a test may be running: names that the tests themselves replace may have another value for now.
        """
        if not self._namespaces:
            self._watch_runner()
            return []
        changed = [
            *self._replaced_modules(testing=testing),
            *self._changed_names(testing=testing),
            *self._changed_functions(),
            *(f"{name} lost rows" for name, table, elements in self._tables if _lost_elements(table, elements)),
        ]
        # Report these at once: the checks that follow call functions of pytest, which must be its own.
        return self._unreported(changed) or self._unreported(list(self._hook_changes()))

    def _watch_runner(self) -> None:
        """Start watching the modules that the runner consists of, and its hooks."""
        for name, module in plain_names(modules).items():
            package = name.split(".")[0]
            if package in WATCHED_PACKAGES and issubclass(type(module), ModuleType):
                self._modules[name] = module
                self._watch_module(name, module)
            if package == "pluggy":
                classes = [value for value in module_namespace(module).values() if type(value) is type]
                self._pluggy_classes.update((id(value), value) for value in classes)
        self._hooks = self._hook_functions()

    def _replaced_modules(self, *, testing: bool) -> Iterator[str]:
        loaded = plain_names(modules)
        for name, module in self._modules.items():
            if loaded.get(name) is not module and not (testing and name in self._patched_names):
                yield f"sys.modules.{name}"

    def _changed_names(self, *, testing: bool) -> Iterator[str]:
        """Yield the names of watched modules and classes whose value is another one, and added names that hide others."""
        for name, namespace, keys, values, kind in self._namespaces:
            current, changed = namespace, []
            if not _are_identical(namespace, keys):
                current = plain_names(namespace)
                changed = list(self._hiding(current, keys, kind))
                if len(current) < len(namespace):
                    yield f"{name} has names that are no strings"
            changed += [key for key, value in values.items() if current.get(key, _MISSING) is not value]
            for key in changed:
                if not (testing and key in self._patched_names and not self._is_product(current.get(key))):
                    yield f"{name}.{key}"

    def _changed_functions(self) -> Iterator[str]:
        for name, function, code, defaults in self._functions:
            if function.__code__ is not code or function.__defaults__ is not defaults:
                yield name

    def _hiding(self, current: Mapping[str, Any], keys: tuple[str, ...], kind: type | None) -> Iterator[str]:
        """Yield added names that hide a builtin in a module, or a method of a base in a class."""
        for key in current.keys() - set(keys):
            value = current[key]
            if kind is None:
                if key in _BUILTINS:
                    yield key
            elif type(_class_attribute(kind, key, above=True)) in _METHOD_TYPES and self._is_foreign(value):
                yield key

    def _is_foreign(self, value: Any) -> bool:  # noqa: ANN401
        """Return whether a value can be called and is no function of the tests or of a library."""
        if type(value) is property or callable(value):
            return function_of(value) is None or self._is_product(value)
        return False

    def _is_product(self, value: Any) -> bool:  # noqa: ANN401
        """Return whether a function was defined by code under test, or by code that it created."""
        function = function_of(value)
        file = "" if function is None else function.__code__.co_filename
        return self._is_product_file(file) or file == "<string>"

    def _is_product_file(self, file: str) -> bool:
        return file.startswith(self._workspace) and not is_test(file[len(self._workspace) :])

    def _unreported(self, changed: list[str]) -> list[str]:
        unreported = sorted(set(changed) - self._reported)
        self._reported.update(unreported)
        return unreported

    def _watch_module(self, name: str, module: ModuleType, written: Collection[str] | None = None) -> None:
        """Start watching functions and classes of a module, and the members of classes that it defines.

        With `written`, the names that a test module writes to, also watch its other constants and the builtins that it
        does not redefine.
        """
        namespace = plain_names(module_namespace(module))
        values = {key: value for key, value in namespace.items() if callable(value)}
        if written is not None:
            values.update({key: value for key, value in namespace.items() if _is_constant(key, value, written)})
            values.update(dict.fromkeys(_BUILTINS.difference(namespace), _MISSING))
            values["__builtins__"] = namespace.get("__builtins__", _MISSING)
        self._watch(name, module_namespace(module), namespace, values)
        for key, value in namespace.items():
            members = plain_names(_CLASS_DICT.__get__(value)) if issubclass(type(value), type) else {}
            owner = members.get("__module__", "builtins")
            if members and type(owner) is str and owner == name:
                watched = {
                    attribute: member
                    for attribute, member in members.items()
                    if callable(member) or type(member) in _MEMBER_TYPES
                }
                self._watch(f"{name}.{key}", _CLASS_DICT.__get__(value), members, watched, value)

    def _watch(
        self,
        name: str,
        namespace: Mapping[str, Any],
        names: Collection[str],
        values: dict[str, Any],
        kind: type | None = None,
    ) -> None:
        self._namespaces.append((name, namespace, tuple(names), values, kind))
        for key, value in values.items():
            function = function_of(value)
            if function is not None:
                self._functions.append((f"{name}.{key}", function, function.__code__, function.__defaults__))

    def _hook_functions(self) -> dict[int, tuple[str, Any, Any]]:
        """Return the implementations of all hooks by identity, with the name of the hook and their function."""
        return {
            id(hook): (name, hook, hook.function)
            for name, caller in self._hook_callers()
            for hook in caller.get_hookimpls()
            if id(type(hook)) in self._pluggy_classes
        }

    def _hook_callers(self) -> list[tuple[str, Any]]:
        hooks = {} if self.manager is None else instance_dict(instance_dict(self.manager).get("hook"))
        return [(name, caller) for name, caller in hooks.items() if id(type(caller)) in self._pluggy_classes]

    def _hook_changes(self) -> Iterator[str]:
        registered = self._hook_functions()
        for key, (name, _, function) in self._hooks.items():
            if key not in registered or registered[key][2] is not function:
                yield f"function of hook {name}"
        for key in registered.keys() - self._hooks.keys():
            name, hook, function = registered[key]
            if function_of(function) is None or self._is_product(function):
                owner = hook.plugin_name if type(hook.plugin_name) is str else "0"
                yield f"hook {name} of {_class_name(hook.plugin) if owner.isdigit() else owner}"
        for name, caller in self._hook_callers():
            if self._is_product(caller._hookexec):  # noqa: SLF001 - no other name for it
                yield f"calls of hook {name}"
        for instance in self._session_objects:
            attributes = instance_dict(instance)
            # A test may replace a method for itself.
            names = [name for name in (*_hidden_methods(instance, attributes), "_inner_hookexec") if name]
            if "__dict__" in attributes or any(self._is_product(attributes.get(name)) for name in names):
                yield f"attributes of {_class_name(instance)}"

    def watch_session(self, items: list[tuple[Any, str]]) -> None:
        """Start watching the test modules and the collected tests: code under test can change them as well."""
        for name, module in self._test_modules():
            namespace = module_namespace(module)
            written = _written_names(namespace)
            self._watch_module(name, module, written)
            # A test may add to its tables, but not lose a row.
            self._tables += [
                (f"{name}.{key}", value, _elements(value))
                for key, value in list(namespace.items())
                if type(value) in (list, dict) and _is_constant(key, value, written) and len(value) <= MAX_ELEMENTS
            ]
        self._items = {id(item): (nodeid, *_item_state(item)) for item, nodeid in items}
        plugins = instance_dict(self.manager).get("_name2plugin", {})
        for instance in (self.manager, *(plugins.values() if type(plugins) is dict else ())):
            owner = _class_attribute(type(instance), "__module__")
            if type(owner) is str and owner.split(".")[0] == "_pytest":
                self._session_objects.append(instance)

    def item_changes(self, item: Any, nodeid: str) -> list[str]:  # noqa: ANN401
        """Return the test if its id, its class, its methods or its function changed since collection."""
        before = self._items.get(id(item))
        if before is None:
            return []
        kind, methods, function, session = _item_state(item)
        if nodeid == before[0] and kind is before[1] and methods == before[2] and session is before[4]:
            # A test without a function may get one, and plugins and conftests may wrap it.
            if function is before[3] or function is None or before[3] is None:
                return []
            if type(function) is FunctionType and not self._is_product(function):
                return []
        return self._unreported([f"test item {before[0]}"])

    def foreign_modules(self, support: Mapping[str, list[str]]) -> list[str]:
        """Return test modules that product code loaded, and modules that stand in for a helper of the tests.

        `support` has the names of helpers with their files in the base repository.
        """
        foreign = []
        for name, module in plain_names(modules).items():
            file = module_file(module)
            # Conftests are restored, and pytest loads them by path.
            if name in support and not name.endswith("conftest"):
                expected = [self._workspace + path if path else "" for path in support[name]]
                if file not in expected and not any(_is_same_file(file, path) for path in expected):
                    foreign.append(f"module {name} comes from {file or 'no file'}")
        for name, module in self._test_modules():
            spec = plain_names(module_namespace(module)).get("__spec__")
            if type(spec) is not ModuleSpec:
                foreign += [f"module {name} has another specification"] if spec is not None else []
                continue
            owner = _class_attribute(type(spec.loader), "__module__")
            if type(owner) is str and self._is_product_file(module_file(plain_names(modules).get(owner))):
                foreign.append(f"module {name} was loaded by {owner}")
        return foreign

    @staticmethod
    def installed_modules() -> list[str]:
        """Return the top-level modules that were loaded from installed packages."""
        return sorted(
            {name.split(".")[0] for name, module in plain_names(modules).items() if "-packages/" in module_file(module)}
        )

    def _test_modules(self) -> Iterator[tuple[str, ModuleType]]:
        for name, module in plain_names(modules).items():
            file = module_file(module)
            if file.startswith(self._workspace) and is_test(file[len(self._workspace) :]):
                yield name, module


def is_test(path: str) -> bool:
    """Return whether a workspace file belongs to the tests, judged by its folder and name."""
    *folders, name = path.split("/")
    named = name.startswith("test_") or name.endswith("_test.py") or name == "conftest.py"
    return named or "tests" in folders or "test" in folders


def module_namespace(module: Any) -> Mapping[str, Any]:  # noqa: ANN401
    """Return the namespace of a module without triggering its own attribute access."""
    return _MODULE_DICT.__get__(module) if issubclass(type(module), ModuleType) else {}


def plain_names(namespace: Mapping[Any, Any]) -> dict[str, Any]:
    """Return the entries whose names are plain strings. To look up others would call their methods."""
    return {key: value for key, value in list(namespace.items()) if type(key) is str}


def _are_identical(namespace: Mapping[str, Any], keys: tuple[str, ...]) -> bool:
    """Return whether a namespace has exactly these names, without comparing or hashing them."""
    return len(namespace) == len(keys) and all(map(is_, namespace, keys))


def module_file(module: Any) -> str:  # noqa: ANN401
    file = plain_names(module_namespace(module)).get("__file__")
    return file if type(file) is str else ""


def function_of(value: Any) -> FunctionType | None:  # noqa: ANN401
    """Return the function itself or the one inside a wrapper type of Python. Other objects are never called."""
    if type(value) in (MethodType, classmethod, staticmethod):
        value = value.__func__
    elif type(value) is property:
        value = value.fget
    return value if type(value) is FunctionType else None


def _is_constant(key: str, value: Any, written: Collection[str]) -> bool:  # noqa: ANN401
    """Return whether a value is a module, or a number, text or collection that its module does not write to."""
    if type(value) in PLAIN_TYPES:
        return not key.startswith("__") and key not in written
    return issubclass(type(value), ModuleType)


def _written_names(namespace: Mapping[str, Any]) -> set[str]:
    """Return the names that a module may write to, by its text."""
    try:
        with open(namespace["__file__"], encoding="utf-8", errors="replace") as file:  # noqa: PTH123
            source = file.read()
    except (OSError, TypeError, ValueError):
        return set()
    return {word for names in _find_written_names(source) for word in re.findall(r"\w+", " ".join(names))}


def _elements(table: Any) -> list[Any]:  # noqa: ANN401 - a list or a dictionary
    return [*table, *table.values()] if type(table) is dict else list(table)


def _lost_elements(table: Any, elements: list[Any]) -> bool:  # noqa: ANN401 - a list or a dictionary
    """Return whether a table lost elements. Tests may add rows to a list, and entries to a dictionary."""
    kept = {id(element) for element in _elements(table)} if len(table) <= MAX_ELEMENTS else None
    return kept is not None and any(id(element) not in kept for element in elements)


def _item_state(item: Any) -> tuple[Any, ...]:  # noqa: ANN401
    """Return what decides what a test does: its class, attributes that hide methods of the class, its function."""
    attributes = instance_dict(item)
    function = attributes.get("_obj")
    if type(function) is MethodType:
        function = function.__func__
    session = _class_attribute(type(item), "session")  # a slot in some versions of pytest
    session = session.__get__(item) if type(session) is MemberDescriptorType else attributes.get("session")
    return (type(item), _hidden_methods(item, attributes), function, session)


def _hidden_methods(instance: Any, attributes: Mapping[str, Any]) -> list[str]:  # noqa: ANN401
    """Return the attributes of an object that hide methods of its class; a blank name if not all are known."""
    kind = type(instance)
    hidden = [name for name in attributes if type(_class_attribute(kind, name)) is FunctionType]
    return hidden if "__dict__" not in attributes else [*hidden, ""]


def instance_dict(instance: Any) -> Mapping[str, Any]:  # noqa: ANN401
    """Return the attributes in an object's `__dict__`, or nothing if its class replaces that attribute.

    If it is no plain dictionary, or has names that are no plain strings, they are incomplete and include `__dict__`.
    """
    if type(_class_attribute(type(instance), "__dict__")) is not GetSetDescriptorType:
        return {}
    attributes = vars(instance)
    if type(attributes) is not dict:
        return {"__dict__": attributes}
    plain = plain_names(attributes)
    return plain if len(plain) == len(attributes) else {**plain, "__dict__": attributes}


def _class_attribute(kind: type, name: str, *, above: bool = False) -> Any:  # noqa: ANN401
    """Look an attribute up in a class and its bases without triggering their own attribute access.

    With `above`, only in its bases.
    """
    for base in _CLASS_MRO.__get__(kind)[above:]:
        attribute = _members(base).get(name, _MISSING)
        if attribute is not _MISSING:
            return attribute
    return None


def _class_name(instance: Any) -> str:  # noqa: ANN401
    return str.__str__(_CLASS_NAME.__get__(type(instance)))


def _members(kind: type) -> Mapping[str, Any]:
    """Return the namespace of a class without names of another type. It gets such names only when it is created."""
    if id(kind) not in _MEMBERS:
        members = _CLASS_DICT.__get__(kind)
        plain = plain_names(members)
        _MEMBERS[id(kind)] = (kind, members if len(plain) == len(members) else plain)
    return _MEMBERS[id(kind)][1]


def _is_same_file(path: str, other: str) -> bool:
    """Compare by device and inode: a project's tests may lie behind a link."""
    try:
        left, right = stat(path), stat(other)
    except (OSError, ValueError):
        return False
    return (left.st_dev, left.st_ino) == (right.st_dev, right.st_ino)
