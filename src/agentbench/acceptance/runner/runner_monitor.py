"""Detects changes to the test runner: functions of pytest that are no longer the ones that were loaded.

Code under test runs in pytest's own process and can change it. Most ways to do so replace a function, a method or its
code, or register a hook; each of these is detected here. Changes that also happen on the base repository are filtered
out by the harness.
"""

from __future__ import annotations

import builtins
from collections.abc import Iterable, Iterator, Mapping
from sys import modules
from types import CodeType, FrameType, FunctionType, MethodType, ModuleType
from typing import Any

from .callers import CallerCheck
from .code_objects import (
    Binding,
    class_attribute,
    closure_contains,
    code_digest,
    code_of,
    decorated_definitions,
    decorator_file,
    defined_classes,
    dotted_prefixes,
    inner_code,
    instance_dict,
    is_frozen_clock,
    loaded_code,
    matches_digest,
    module_bindings,
    module_file,
    module_namespace,
    node_id,
    own_attribute,
    parent_nodes,
    parse_file,
    replaced_support_modules,
    source_digests,
)
from .constant_snapshot import PLAIN_TYPES, ConstantSnapshot, snapshot_constants

WATCHED_PACKAGES = ("_pytest", "pytest", "pluggy", "unittest", "doctest", "builtins", "math", "operator", "_operator")
ITEM_STATE = ("class", "id", "method", "owner", "function")
FIXED_ATTRIBUTES = (
    *("_inner_hookexec", "hook", "pluginmanager", "config", "items"),
    *("_setupstate", "_fixturemanager", "rewrite_hook"),
)
"""Attributes of the session, its configuration and its plugin manager that are not replaced after collection."""
CLOCK_NAMES = frozenset({"time", "time_ns", "perf_counter", "monotonic", "sleep", "localtime", "datetime", "date"})
LAZY_CLASS_NAMES = ("__annot", "_abc_", "__static", "__firstlineno")
"""Prefixes of names that Python itself adds to a class later on."""
TOLERANCES = frozenset({"DEFAULT_ABSOLUTE_TOLERANCE", "DEFAULT_RELATIVE_TOLERANCE"})
_MISSING = object()
_BUILTINS = frozenset(name for name in vars(builtins) if not name.startswith("__"))


class RunnerMonitor:
    """Takes a snapshot at the first check and compares with it at later ones."""

    def __init__(self, workspace: str, start: CodeType, patched_names: Iterable[str], conftests: Iterable[str]) -> None:
        self._workspace = workspace.rstrip("/") + "/"
        self._patched_names = frozenset(patched_names)
        self._conftest_digests = {file: source_digests(file) for file in conftests}
        """Digests of the code in the base repository's conftests, read before any code of the workspace ran."""
        self._caller_check = CallerCheck(start, self._workspace, self._conftest_digests)
        self.is_genuine = self._caller_check.is_trusted
        """Says whether code comes from the file that it names."""
        self._bindings: list[Binding] = []
        self._reported: set[str] = set()
        self._loaded_code: dict[int, Any] = {}
        self.manager: Any = None
        """pytest's plugin manager, once it exists."""
        self.plugin_functions: list[Any] = []
        """Functions of the runner's pytest plugin."""
        self._cells: list[tuple[str, Any, Any]] = []
        self._plugin_globals: list[tuple[dict[str, Any], dict[str, Any]]] = []
        """Globals of the plugin's functions, and a copy of their original content."""
        self._test_namespaces: list[tuple[str, Mapping[str, Any], frozenset[str]]] = []
        """Test modules, and the builtins that each of them redefined at first."""
        self._items: dict[int, tuple[Any, ...]] = {}
        self._hook_functions: list[tuple[str, Any, Any]] = []
        self._collectors: dict[int, tuple[Any, Any, list[str]]] = {}
        self._hook_callers: dict[str, tuple[Any, ...]] = {}
        self._class_names: list[tuple[str, Mapping[str, Any], frozenset[str]]] = []
        """Classes of pytest, and the names that they define."""
        self._constants: list[ConstantSnapshot] = []
        self._session_objects: list[tuple[str, Any, Any, dict[str, Any]]] = []
        self._plugin_folders: tuple[str, ...] = ()
        self._conftests: dict[int, CodeType] = {}

    def changes(self, *, testing: bool = False) -> list[str]:
        """Return names that changed since the first check and were not reported yet.

        With `testing`, a test may be running: names that the tests themselves replace may have another value for now.
        """
        if not self._bindings:
            self._take_snapshot()
            return []
        changed = [
            name
            for name, namespace, key, value, function, code, defaults in self._bindings
            if (
                namespace.get(key, _MISSING) is not value
                and not (testing and self._is_patched_by_tests(name, key, namespace.get(key)))
            )
            or (function is not None and (function.__code__ is not code or function.__defaults__ is not defaults))
        ]
        changed += [name for name, cell, value in self._cells if cell.cell_contents is not value]
        changed += [
            f"globals of the runner plugin: {key}"
            for namespace, known in self._plugin_globals
            for key in {*namespace, *known}
            if namespace.get(key, _MISSING) is not known.get(key, _MISSING)
        ]
        changed += [
            f"{name} redefines {key}"
            for name, namespace, known in self._test_namespaces
            for key in (namespace.keys() & _BUILTINS) - known
        ]
        changed += [
            f"{name}.{key}"
            for name, class_namespace, names in self._class_names
            if len(class_namespace) != len(names)
            for key in class_namespace.keys() - names
            if not key.startswith(LAZY_CLASS_NAMES)
            and type(class_namespace.get(key)) not in PLAIN_TYPES  # pytest stores there which warnings it has issued
            and not self._is_pytest_legacy(code_of(class_namespace.get(key)))
            and not (testing and self._is_patched_by_tests(name, key, class_namespace.get(key)))
        ]
        changed += [
            constant.name
            for constant in self._constants
            if constant.changed() and not (testing and constant.key in self._patched_names)
        ]
        # Report these at once: the checks that follow call functions of pytest, which must be its own.
        return self._unreported(changed) or self._unreported([*self._new_hooks(), *self._session_changes()])

    def _take_snapshot(self) -> None:
        self._bindings = list(_pytest_bindings())
        self._class_names = [
            (name, class_namespace, frozenset(class_namespace))
            for module in list(modules)
            if module.split(".")[0] in WATCHED_PACKAGES and module in modules
            for name, class_namespace in defined_classes(module, modules[module])
        ]
        self._cells = [
            (f"cell of {function.__name__}", cell, cell.cell_contents)
            for function in self.plugin_functions
            for cell in function.__closure__ or ()
        ]
        plugin_globals = {id(function.__globals__): function.__globals__ for function in self.plugin_functions}
        builtins_copies = [
            entry
            for entry in (namespace.get("__builtins__") for namespace in plugin_globals.values())
            if type(entry) is dict
        ]
        self._plugin_globals = [
            (namespace, dict(namespace)) for namespace in (*plugin_globals.values(), *builtins_copies)
        ]
        hooks = {} if self.manager is None else instance_dict(own_attribute(self.manager, "hook"))
        self._hook_callers = {name: _caller_state(caller) for name, caller in hooks.items()}
        self._hook_functions = [(name, entry, entry.function) for name, entry in self._hook_implementations()]
        hook_code = [code for _, entry in self._hook_implementations() if (code := code_of(entry.function)) is not None]
        self._loaded_code = {id(code): code for code in (*loaded_code(), *hook_code)}
        self._caller_check.trust(self._loaded_code.values())

    def installed_modules(self) -> list[str]:
        """Return the top-level modules that were loaded from installed packages."""
        return sorted(
            {name.split(".")[0] for name, module in list(modules.items()) if "-packages/" in module_file(module)}
        )

    def set_entry_points(self, functions: list[Any], guard: CodeType) -> None:
        """Set the functions of the runner's plugin, and the guard function between them and the recorder."""
        self.plugin_functions = functions
        self._caller_check.set_entry_points((function.__code__ for function in functions), guard)

    def untrusted_callers(self, frame: FrameType | None) -> list[str]:
        """Return untrusted functions on the stack above `frame`."""
        return self._unreported(self._caller_check.untrusted_callers(frame))

    def _is_pytest_legacy(self, code: CodeType | None) -> bool:
        """Return whether code is pytest's own, added to its classes later for users of the old names."""
        return (
            code is not None and id(code) in self._loaded_code and code.co_filename.endswith("/_pytest/legacypath.py")
        )

    def _is_patched_by_tests(self, name: str, key: str, value: Any) -> bool:  # noqa: ANN401
        """Return whether tests replace this name themselves and the replacement is not code under test.

        Time-freezing packages replace clocks wherever they are read, in pytest too.
        """
        code = code_of(value)
        file = code.co_filename if code is not None else ""
        clock = key in CLOCK_NAMES and (name.startswith("_pytest.") or is_frozen_clock(value))
        return (clock or key.rpartition(".")[2] in self._patched_names) and not self._is_product(file)

    def _unreported(self, changed: list[str]) -> list[str]:
        unreported = sorted(set(changed) - self._reported)
        self._reported.update(unreported)
        return unreported

    def watch_session(self, session: Any, items: list[Any]) -> list[str]:  # noqa: ANN401
        """Start watching the session's objects as they are after collection.

        Instance attributes hide methods of the class. Return those that are already hidden: code under test may have
        acted before collection ended.
        """
        runner = _pytest_file().rpartition("/")[0]
        files = [module_file(plugin) for plugin in self.manager.get_plugins()]
        self._plugin_folders = tuple(
            file if folder.endswith("-packages") else folder + "/"  # a plugin may be a single file
            for file, folder in ((file, file.rpartition("/")[0]) for file in files)
            if "-packages/" in file and not file.startswith(runner)
        )
        self._conftests = {
            id(code): code
            for _, module in self._test_modules()
            if module_file(module).endswith("/conftest.py")
            for binding in module_bindings("", module)
            if binding.code is not None
            for code in (binding.code, *inner_code(binding.code))
        }
        self._caller_check.trust(self._conftests.values())
        self._items = {id(item): _item_state(item) for item in items}
        parents = {id(node): node for item in items for node in parent_nodes(item)}
        config = own_attribute(session, "config")
        for name, watched in [("session", session), ("config", config), ("plugin manager", self.manager)]:
            fixed = {key: instance_dict(watched).get(key) for key in FIXED_ATTRIBUTES if key in instance_dict(watched)}
            self._session_objects.append(
                (name, watched, type(watched), {**dict.fromkeys(_hiding_attributes(watched)), **fixed})
            )
        self._collectors = {
            key: (watched, type(watched), _hiding_attributes(watched)) for key, watched in parents.items()
        }
        hiding = [f"test item {node_id(item)}: method {key}" for item in items for key in _hiding_attributes(item)]
        return self._unreported(
            hiding
            + [f"{name}.{key}" for name, watched, *_ in self._session_objects for key in _hiding_attributes(watched)]
        )

    def item_changes(self, item: Any) -> list[str]:  # noqa: ANN401
        """Return what changed in a test item and in the session since collection."""
        before = self._items.get(id(item))
        if before is None:
            return []
        if type(item) is not before[0]:
            return self._unreported([f"test item {before[1]}: {ITEM_STATE[0]}"])
        now = _item_state(item)
        changed = [name for name, was, is_now in zip(ITEM_STATE, before, now) if not _is_unchanged(was, is_now)]  # noqa: B905
        if before[-1] is not now[-1] and (
            self._is_plugin_wrapper(now[-1]) or self._is_conftest_wrapper(now[-1], before[-1])
        ):
            changed = [name for name in changed if name != ITEM_STATE[-1]]
        for node in parent_nodes(item):
            _, kind, hiding = self._collectors.get(id(node), (None, None, None))
            if type(node) is not kind or not _is_unchanged(hiding, _hiding_attributes(node)):
                changed.append(f"collector {node_id(node) if type(node) is kind else ''}")
        return self._unreported([*(f"test item {before[1]}: {change}" for change in changed), *self._session_changes()])

    def _is_plugin_wrapper(self, function: Any) -> bool:  # noqa: ANN401
        """Return whether an installed plugin wrapped the test, as plugins for coroutines do."""
        code = getattr(function, "__code__", None) if type(function) is FunctionType else None
        return code is not None and code.co_filename.startswith(self._plugin_folders or ("\0",))

    def _is_conftest_wrapper(self, function: Any, original: Any) -> bool:  # noqa: ANN401
        """Return whether a conftest of the project wrapped the test and still contains it."""
        code = function.__code__ if type(function) is FunctionType else None
        return id(code) in self._conftests and closure_contains(function, original)

    def _session_changes(self) -> Iterator[str]:
        yield from (
            f"replaced function of hook {name}"
            for name, watched, was in self._hook_functions
            if watched.function is not was
        )
        registered = {id(watched) for _, watched in self._hook_implementations()}
        yield from (
            f"removed function of hook {name}"
            for name, watched, _ in self._hook_functions
            if id(watched) not in registered
        )
        for name, was in self._hook_callers.items():
            caller = instance_dict(own_attribute(self.manager, "hook")).get(name)
            if any(now is not then for now, then in zip(_caller_state(caller), was)):  # noqa: B905
                yield f"replaced caller of hook {name}"
        for name, watched, kind, known in self._session_objects:
            if type(watched) is not kind:
                yield f"class of the {name}"
            yield from (f"{name}.{key}" for key in _hiding_attributes(watched) if key not in known)
            yield from (
                f"{name}.{key}"
                for key in FIXED_ATTRIBUTES
                if key in known and instance_dict(watched).get(key, _MISSING) is not known[key]
            )

    def watch_tests(self) -> None:
        """Start watching the test modules as they are after collection: code under test can change them as well."""
        for name, module in self._test_modules():
            self._bindings += module_bindings(name, module)
            namespace = module_namespace(module)
            self._test_namespaces.append((f"test module {name}", namespace, frozenset(namespace.keys() & _BUILTINS)))
            if "__builtins__" in namespace:
                module_builtins = namespace["__builtins__"]
                self._bindings.append(
                    Binding(f"{name}.__builtins__", namespace, "__builtins__", module_builtins, None, None, None)
                )
            tree = parse_file(module_file(module))
            if tree is not None:
                self._constants += snapshot_constants(name, namespace, tree)

    def test_code(self) -> Iterator[tuple[str, str, dict[str, str]]]:
        """Yield name, file and function digests of every loaded test module, without functions from other files."""
        for name, module in self._test_modules():
            file = module.__file__ or ""
            rewritten = self._decorated_by_product(module)
            digests = {
                binding.name: code_digest(binding.function.__code__)
                for binding in module_bindings(name, module)
                if binding.function is not None and binding.function.__code__.co_filename == file
            }
            yield (
                name,
                file,
                {
                    key: digest
                    for key, digest in digests.items()
                    if rewritten.isdisjoint(dotted_prefixes(key[len(name) + 1 :]))
                },
            )

    def _decorated_by_product(self, module: ModuleType) -> set[str]:
        """Return functions and classes decorated by product code: it may rewrite them, and a fix may change how."""
        tree = parse_file(module_file(module))
        if tree is None:
            return set()
        decorated = set()
        for name, decorators in decorated_definitions(tree.body, ""):
            files = (decorator_file(module, decorator) for decorator in decorators)
            if any(self._is_product(file) for file in files):
                decorated.add(name)
        return decorated

    def _is_product(self, file: str) -> bool:
        return file.startswith(self._workspace) and not is_test(file[len(self._workspace) :])

    def test_differences(self, expected: Mapping[str, Any], support: Mapping[str, list[str]]) -> list[str]:
        """Return differences from the base repository's modules: code under test may have acted before their import."""
        differences = replaced_support_modules(support, self._workspace)
        for name, (file, functions) in expected.items():
            module = modules.get(name)
            if module is None:
                continue
            if module_file(module) != file:
                differences.append(f"module {name} does not come from {file}")
                continue
            now = {binding.name: binding for binding in module_bindings(name, module)}
            differences += [
                f"test code {key}"
                for key, wanted in functions.items()
                if key in now and not matches_digest(now[key], wanted)
            ]
        return differences

    def _test_modules(self) -> Iterator[tuple[str, ModuleType]]:
        for name, module in list(modules.items()):
            file = module_file(module)
            if file.startswith(self._workspace) and is_test(file[len(self._workspace) :]):
                yield name, module

    def _new_hooks(self) -> Iterator[str]:
        """Yield hooks whose code was not loaded at the first check, from conftests or from anything else."""
        for name, implementation in self._hook_implementations():
            code = code_of(implementation.function)
            if id(code) not in self._loaded_code and not self._is_conftest_hook(implementation.plugin, code):
                plugin = implementation.plugin_name if type(implementation.plugin_name) is str else "0"
                owner = type(implementation.plugin).__name__ if plugin.isdigit() else plugin
                yield f"hook {name} of {owner} in {code.co_filename if code is not None else ''}"

    def _is_conftest_hook(self, plugin: Any, code: Any) -> bool:  # noqa: ANN401
        """Return whether a hook comes from a conftest of the base repository.

        Such a conftest may need the fix to load, so that the survey of the base repository did not see it.
        """
        known = self._conftest_digests.get(module_file(plugin), frozenset())
        return type(code) is CodeType and code_digest(code) in known

    def _hook_implementations(self) -> Iterator[tuple[str, Any]]:
        hooks = {} if self.manager is None else instance_dict(own_attribute(self.manager, "hook"))
        for name, caller in list(hooks.items()):
            # A foreign object in its place is reported as such and never called.
            if name in self._hook_callers and type(caller) is not self._hook_callers[name][-1]:
                continue
            for implementation in caller.get_hookimpls() if hasattr(caller, "get_hookimpls") else ():
                if type(implementation).__module__.startswith("pluggy"):
                    yield name, implementation


def _item_state(item: Any) -> tuple[Any, ...]:  # noqa: ANN401
    """Return what decides what a test does and how it is reported. `ITEM_STATE` names the parts."""
    # Missing attributes are not requested: code under test could provide them.
    function = instance_dict(item).get("_obj")
    if type(function) is MethodType:
        function = function.__func__
    owners = [own_attribute(item, key) for key in ("config", "session", "parent", "_id")]
    return (type(item), node_id(item), sorted(_hiding_attributes(item)), [id(owner) for owner in owners], function)


def _is_unchanged(was: Any, is_now: Any) -> bool:  # noqa: ANN401
    """Compare without running code of either value.

    A test without a function may get one, also when it is repeated: its class is watched.
    """
    if was is is_now or was is None or is_now is None:
        return True
    return type(was) is type(is_now) and type(was) in (str, list) and bool(was == is_now)


def _hiding_attributes(instance: Any) -> list[str]:  # noqa: ANN401
    """Return instance attributes that hide methods of the class."""
    kind = type(instance)
    names = instance_dict(instance)
    return [key for key in names if type(key) is not str or type(class_attribute(kind, key)) is FunctionType]


def _caller_state(caller: Any) -> tuple[Any, ...]:  # noqa: ANN401
    """Return what calls a hook. pluggy keeps it in slots in newer versions and in attributes in older ones."""
    return (caller, own_attribute(caller, "_hookexec"), type(caller))


def _pytest_file() -> str:
    return module_file(modules.get("_pytest")) or "\0"


def _pytest_bindings() -> Iterator[Binding]:
    for name, module in list(modules.items()):
        if name.split(".")[0] not in WATCHED_PACKAGES or not issubclass(type(module), ModuleType):
            continue
        yield Binding(f"module {name}", modules, name, module, None, None, None)
        yield from module_bindings(name, module)
        for class_name, class_namespace in defined_classes(name, module):
            for key in TOLERANCES & class_namespace.keys():
                yield Binding(f"{class_name}.{key}", class_namespace, key, class_namespace[key], None, None, None)


def is_test(path: str) -> bool:
    """Return whether a workspace file belongs to the tests, judged by its folder and name."""
    *folders, name = path.split("/")
    named = name.startswith("test_") or name.endswith("_test.py") or name == "conftest.py"
    return named or "tests" in folders or "test" in folders
