"""Watches over the test runner: which of its functions are no longer the ones that were loaded.

Code under test runs in the runner's own process and can change it. Most ways to do so replace a function, a method or
its code, or hook into the runner; each of these shows here. What shows on untouched R as well is told apart outside.
"""

from __future__ import annotations

import builtins
from collections.abc import Iterable, Iterator, Mapping
from sys import modules
from types import CodeType, FrameType, FunctionType, MethodType, ModuleType
from typing import Any

from .callers import Callers
from .code_objects import (
    Mark,
    class_attribute,
    classes,
    code_digest,
    code_of,
    decorations,
    file_of,
    holds,
    inner_code,
    is_code,
    is_frozen,
    loaded_code,
    module_marks,
    names_above,
    node_id,
    nodes_above,
    origin,
    own_names,
    part,
    space_of,
    strange_support,
    written_code,
    written_tree,
)
from .constant_snapshot import PLAIN, Table, tables

WATCHED = ("_pytest", "pytest", "pluggy", "unittest", "doctest", "builtins", "math", "operator", "_operator")
PORTRAIT = ("class", "id", "method", "place", "function")
KEPT = ("_inner_hookexec", "hook", "pluginmanager", "config", "items", "_setupstate", "_fixturemanager", "rewrite_hook")
"""Attributes of the session, its configuration and its plugin manager that nobody exchanges after collection."""
CLOCK = frozenset({"time", "time_ns", "perf_counter", "monotonic", "sleep", "localtime", "datetime", "date"})
LAZY = ("__annot", "_abc_", "__static", "__firstlineno")
"""Names that Python itself gives a class later on."""
TOLERANCES = frozenset({"DEFAULT_ABSOLUTE_TOLERANCE", "DEFAULT_RELATIVE_TOLERANCE"})
_NOTHING = object()
_BUILTINS = frozenset(name for name in vars(builtins) if not name.startswith("__"))


class Sentinel:
    """The first look remembers, later ones compare."""

    def __init__(self, workspace: str, start: CodeType, replaced: Iterable[str], conftests: Iterable[str]) -> None:
        self._workspace = workspace.rstrip("/") + "/"
        self._replaced = frozenset(replaced)
        self._written = {file: written_code(file) for file in conftests}
        self._callers = Callers(start, self._workspace, self._written)
        self.is_genuine = self._callers.knows
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
        self._hook_callers: dict[str, tuple[Any, ...]] = {}
        self._shapes: list[tuple[str, Mapping[str, Any], frozenset[str]]] = []
        """Classes of the runner, and the names that they have."""
        self._tables: list[Table] = []
        self._objects: list[tuple[str, Any, Any, dict[str, Any]]] = []
        self._plugin_folders: tuple[str, ...] = ()
        self._conftests: dict[int, CodeType] = {}

    def __call__(self, *, testing: bool = False) -> list[str]:
        """Names that changed since the first look and were not told yet.

        `testing`: a test may be at work, so what the tests say they replace may be something else for now.
        """
        if not self._marks:
            self._first_look()
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
        changed += [
            f"{name}.{key}"
            for name, within, names in self._shapes
            if len(within) != len(names)
            for key in within.keys() - names
            if not key.startswith(LAZY)
            and type(within.get(key)) not in PLAIN  # pytest notes down what it has warned of
            and not self._is_legacy(code_of(within.get(key)))
            and not (testing and self._is_tests(name, key, within.get(key)))
        ]
        changed += [one.name for one in self._tables if one.changed() and not (testing and one.key in self._replaced)]
        # Told at once: what follows calls functions of the runner, which must be its own.
        return self._news(changed) or self._news([*self._new_hooks(), *self._changed_session()])

    def _first_look(self) -> None:
        self._marks = list(_marks())
        self._shapes = [
            (name, within, frozenset(within))
            for module in list(modules)
            if module.split(".")[0] in WATCHED and module in modules
            for name, within in classes(module, modules[module])
        ]
        self._cells = [
            (f"cell of {function.__name__}", cell, cell.cell_contents)
            for function in self.functions
            for cell in function.__closure__ or ()
        ]
        grounds = {id(function.__globals__): function.__globals__ for function in self.functions}
        within = [one for one in (where.get("__builtins__") for where in grounds.values()) if type(one) is dict]
        self._grounds = [(where, dict(where)) for where in (*grounds.values(), *within)]
        hooks = {} if self.manager is None else own_names(part(self.manager, "hook"))
        self._hook_callers = {name: _caller(caller) for name, caller in hooks.items()}
        self._functions = [(name, one, one.function) for name, one in self._hooks()]
        own = [code for _, one in self._hooks() if (code := code_of(one.function)) is not None]
        self._known_code = {id(code): code for code in (*loaded_code(), *own)}
        self._callers.know(self._known_code.values())

    def installed(self) -> list[str]:
        """Top-level modules that are loaded from where packages are installed."""
        return sorted({name.split(".")[0] for name, one in list(modules.items()) if "-packages/" in file_of(one)})

    def doors(self, functions: list[Any], behind: CodeType) -> None:
        """Our own part of the session, and the function that leads from there to whoever looks."""
        self.functions = functions
        self._callers.doors((function.__code__ for function in functions), behind)

    def callers(self, frame: FrameType | None) -> list[str]:
        """Who has no business between the session and the one that this is the frame of."""
        return self._news(self._callers.strangers(frame))

    def _is_legacy(self, code: CodeType | None) -> bool:
        """Whether it is the runner's own, given to its classes for those who need their old names."""
        return code is not None and id(code) in self._known_code and code.co_filename.endswith("/_pytest/legacypath.py")

    def _is_tests(self, name: str, key: str, value: Any) -> bool:  # noqa: ANN401
        """Whether tests replace this name themselves, and code under test is not what came in its place.

        Who freezes time does so wherever it is read, in the runner too.
        """
        code = code_of(value)
        file = code.co_filename if code is not None else ""
        clock = key in CLOCK and (name.startswith("_pytest.") or is_frozen(value))
        return (clock or key.rpartition(".")[2] in self._replaced) and not self._is_product(file)

    def _news(self, changed: list[str]) -> list[str]:
        news = sorted(set(changed) - self._told)
        self._told.update(news)
        return news

    def watch_session(self, session: Any, items: list[Any]) -> list[str]:  # noqa: ANN401
        """Watch the objects of the session too, as they are after collection: what an instance has hides its class.

        Returns what already does: code under test may have been faster than the end of the collection.
        """
        runner = _runner_file().rpartition("/")[0]
        files = [file_of(plugin) for plugin in self.manager.get_plugins()]
        self._plugin_folders = tuple(
            file if folder.endswith("-packages") else folder + "/"  # a plugin may be a single file
            for file, folder in ((file, file.rpartition("/")[0]) for file in files)
            if "-packages/" in file and not file.startswith(runner)
        )
        self._conftests = {
            id(code): code
            for _, module in self._test_modules()
            if file_of(module).endswith("/conftest.py")
            for mark in module_marks("", module)
            if mark.code is not None
            for code in (mark.code, *inner_code(mark.code))
        }
        self._callers.know(self._conftests.values())
        self._items = {id(item): _portrait(item) for item in items}
        parents = {id(node): node for item in items for node in nodes_above(item)}
        config = part(session, "config")
        for name, one in [("session", session), ("config", config), ("plugin manager", self.manager)]:
            kept = {key: own_names(one).get(key) for key in KEPT if key in own_names(one)}
            self._objects.append((name, one, type(one), {**dict.fromkeys(_hiding(one)), **kept}))
        self._collectors = {key: (one, type(one), _hiding(one)) for key, one in parents.items()}
        hiding = [f"test item {node_id(item)}: method {key}" for item in items for key in _hiding(item)]
        return self._news(hiding + [f"{name}.{key}" for name, one, *_ in self._objects for key in _hiding(one)])

    def item(self, item: Any) -> list[str]:  # noqa: ANN401
        """What of a test and of the session is not as it was after collection."""
        before = self._items.get(id(item))
        if before is None:
            return []
        if type(item) is not before[0]:
            return self._news([f"test item {before[1]}: {PORTRAIT[0]}"])
        now = _portrait(item)
        changed = [name for name, was, is_now in zip(PORTRAIT, before, now) if not _same(was, is_now)]  # noqa: B905
        if before[-1] is not now[-1] and (self._is_plugins(now[-1]) or self._is_conftests(now[-1], before[-1])):
            changed = [name for name in changed if name != PORTRAIT[-1]]
        for node in nodes_above(item):
            _, kind, hiding = self._collectors.get(id(node), (None, None, None))
            if type(node) is not kind or not _same(hiding, _hiding(node)):
                changed.append(f"collector {node_id(node) if type(node) is kind else ''}")
        return self._news([*(f"test item {before[1]}: {one}" for one in changed), *self._changed_session()])

    def _is_plugins(self, function: Any) -> bool:  # noqa: ANN401
        """Whether a plugin that setup installed put its own around the test, as those for coroutines do."""
        code = getattr(function, "__code__", None) if type(function) is FunctionType else None
        return code is not None and code.co_filename.startswith(self._plugin_folders or ("\0",))

    def _is_conftests(self, function: Any, original: Any) -> bool:  # noqa: ANN401
        """Whether a conftest of the project put its own around the test: its code, and the test still inside."""
        code = function.__code__ if type(function) is FunctionType else None
        return id(code) in self._conftests and holds(function, original)

    def _changed_session(self) -> Iterator[str]:
        yield from (f"function of hook {name}" for name, one, was in self._functions if one.function is not was)
        registered = {id(one) for _, one in self._hooks()}
        yield from (
            f"hook {name} without its function" for name, one, _ in self._functions if id(one) not in registered
        )
        for name, was in self._hook_callers.items():
            caller = own_names(part(self.manager, "hook")).get(name)
            if any(now is not then for now, then in zip(_caller(caller), was)):  # noqa: B905
                yield f"hook caller {name}"
        for name, one, kind, known in self._objects:
            if type(one) is not kind:
                yield f"class of the {name}"
            yield from (f"{name}.{key}" for key in _hiding(one) if key not in known)
            yield from (
                f"{name}.{key}" for key in KEPT if key in known and own_names(one).get(key, _NOTHING) is not known[key]
            )

    def watch_tests(self) -> None:
        """Watch the tests themselves too, as they are after collection: code under test can reach them as well."""
        for name, module in self._test_modules():
            self._marks += module_marks(name, module)
            space = space_of(module)
            self._spaces.append((f"test module {name}", space, frozenset(space.keys() & _BUILTINS)))
            if "__builtins__" in space:
                own = space["__builtins__"]
                self._marks.append(Mark(f"{name}.__builtins__", space, "__builtins__", own, None, None, None))
            tree = written_tree(file_of(module))
            if tree is not None:
                self._tables += tables(name, space, tree)

    def test_code(self) -> Iterator[tuple[str, str, dict[str, str]]]:
        """Every loaded module of the tests: its name, its file, and a digest of each function written in that file."""
        for name, module in self._test_modules():
            file = module.__file__ or ""
            others = self._decorated(module)
            found = {
                mark.name: code_digest(mark.function.__code__)
                for mark in module_marks(name, module)
                if mark.function is not None and mark.function.__code__.co_filename == file
            }
            yield (
                name,
                file,
                {key: one for key, one in found.items() if others.isdisjoint(names_above(key[len(name) + 1 :]))},
            )

    def _decorated(self, module: ModuleType) -> set[str]:
        """Functions and classes that code under test decorates: it may rewrite them, and a fix may change how."""
        tree = written_tree(file_of(module))
        if tree is None:
            return set()
        found = set()
        for name, decorators in decorations(tree.body, ""):
            files = (origin(module, decorator) for decorator in decorators)
            if any(self._is_product(file) for file in files):
                found.add(name)
        return found

    def _is_product(self, file: str) -> bool:
        return file.startswith(self._workspace) and not is_test(file[len(self._workspace) :])

    def strange_tests(self, expected: Mapping[str, Any], support: Mapping[str, list[str]]) -> list[str]:
        """What differs from the same modules on R: code under test may have been faster than their import."""
        strange = strange_support(support, self._workspace)
        for name, (file, functions) in expected.items():
            module = modules.get(name)
            if module is None:
                continue
            if file_of(module) != file:
                strange.append(f"module {name} is not {file}")
                continue
            now = {mark.name: mark for mark in module_marks(name, module)}
            strange += [
                f"test code {key}" for key, wanted in functions.items() if key in now and not is_code(now[key], wanted)
            ]
        return strange

    def _test_modules(self) -> Iterator[tuple[str, ModuleType]]:
        for name, module in list(modules.items()):
            file = file_of(module)
            if file.startswith(self._workspace) and is_test(file[len(self._workspace) :]):
                yield name, module

    def _new_hooks(self) -> Iterator[str]:
        """Hooks of the runner whose code was not loaded at the first look: of conftests, and of whoever else."""
        for name, implementation in self._hooks():
            code = code_of(implementation.function)
            if id(code) not in self._known_code and not self._is_written(implementation.plugin, code):
                plugin = implementation.plugin_name if type(implementation.plugin_name) is str else "0"
                owner = type(implementation.plugin).__name__ if plugin.isdigit() else plugin
                yield f"hook {name} of {owner} in {code.co_filename if code is not None else ''}"

    def _is_written(self, plugin: Any, code: Any) -> bool:  # noqa: ANN401
        """Whether a hook is what a conftest of R says: it may need what only the fix brings, so that R does not have it."""
        known = self._written.get(file_of(plugin), frozenset())
        return type(code) is CodeType and code_digest(code) in known

    def _hooks(self) -> Iterator[tuple[str, Any]]:
        hooks = {} if self.manager is None else own_names(part(self.manager, "hook"))
        for name, caller in list(hooks.items()):
            # A stranger in its place is told as such, and not asked anything.
            if name in self._hook_callers and type(caller) is not self._hook_callers[name][-1]:
                continue
            for implementation in caller.get_hookimpls() if hasattr(caller, "get_hookimpls") else ():
                if type(implementation).__module__.startswith("pluggy"):
                    yield name, implementation


def _portrait(item: Any) -> tuple[Any, ...]:  # noqa: ANN401
    """What decides what a test does and how it is reported; the parts are named in `PORTRAIT`."""
    # What is not there yet is not asked for: code under test could answer.
    function = own_names(item).get("_obj")
    if type(function) is MethodType:
        function = function.__func__
    where = [part(item, key) for key in ("config", "session", "parent")]
    return (type(item), node_id(item), sorted(_hiding(item)), [id(one) for one in where], function)


def _same(was: Any, is_now: Any) -> bool:  # noqa: ANN401
    """Compared without asking either. A test without a function may get one, also when it is repeated: its class is watched."""
    if was is is_now or was is None or is_now is None:
        return True
    return type(was) is type(is_now) and type(was) in (str, list) and bool(was == is_now)


def _hiding(one: Any) -> list[str]:  # noqa: ANN401
    """Attributes of an instance in front of methods of its class."""
    kind = type(one)
    names = own_names(one)
    return [key for key in names if type(key) is not str or type(class_attribute(kind, key)) is FunctionType]


def _caller(caller: Any) -> tuple[Any, ...]:  # noqa: ANN401
    """What a hook is called by. Slots in newer versions of pluggy, attributes in older ones."""
    return (caller, part(caller, "_hookexec"), type(caller))


def _runner_file() -> str:
    return file_of(modules.get("_pytest")) or "\0"


def _marks() -> Iterator[Mark]:
    for name, module in list(modules.items()):
        if name.split(".")[0] not in WATCHED or not issubclass(type(module), ModuleType):
            continue
        yield Mark(f"module {name}", modules, name, module, None, None, None)
        yield from module_marks(name, module)
        for home, within in classes(name, module):
            for key in TOLERANCES & within.keys():
                yield Mark(f"{home}.{key}", within, key, within[key], None, None, None)


def is_test(path: str) -> bool:
    """Whether a file of the workspace belongs to its tests, by where it is and what it is called."""
    *folders, name = path.split("/")
    named = name.startswith("test_") or name.endswith("_test.py") or name == "conftest.py"
    return named or "tests" in folders or "test" in folders
