"""Functions and their code, read and compared without asking anything of whoever they belong to.

Loaded for the sentinel and for nobody else: like it, in no list of modules, so that code under test has no name for it.
"""

from __future__ import annotations

from _ast import PyCF_ONLY_AST
from ast import AsyncFunctionDef, Attribute, Call, ClassDef, FunctionDef, Name
from hashlib import sha256
from posix import stat
from sys import modules
from types import CodeType, FunctionType, GetSetDescriptorType, MemberDescriptorType, MethodType, ModuleType
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    import ast
    from collections.abc import Iterator, Mapping

# All of it bound here, before any code under test: what is looked up by name later can be given another meaning.
_MODULE_SPACE: Any = vars(ModuleType)["__dict__"]
_CLASS_SPACE: Any = vars(type)["__dict__"]
_CLASS_ORDER: Any = vars(type)["__mro__"]
_CLASS_HOME: Any = vars(type)["__module__"]


DEEP = 100
FREEZERS = frozenset({"freezegun"})
_MEMBERS = (classmethod, staticmethod, property, MemberDescriptorType, GetSetDescriptorType)


class Mark(NamedTuple):
    """A name, where it is kept, and what it meant at first. `function` is None where there is no code to change."""

    name: str
    where: Mapping[str, Any]
    key: str
    value: Any
    function: Any
    code: Any
    defaults: Any


def space_of(thing: Any) -> Mapping[str, Any]:  # noqa: ANN401
    """The names of a module, read past whatever it has to say about that itself."""
    return _MODULE_SPACE.__get__(thing) if issubclass(type(thing), ModuleType) else {}


def file_of(module: Any) -> str:  # noqa: ANN401
    file = space_of(module).get("__file__")
    return file if type(file) is str else ""


def code_of(value: Any) -> CodeType | None:  # noqa: ANN401
    function = function_of(value)
    return None if function is None else function.__code__


def function_of(value: Any) -> FunctionType | None:  # noqa: ANN401
    """The function that a plain wrapper of Python's own has, or that this is. Nobody else is asked."""
    if type(value) in (MethodType, classmethod, staticmethod):
        value = value.__func__
    elif type(value) is property:
        value = value.fget
    return value if type(value) is FunctionType else None


def _mark(name: str, where: Mapping[str, Any], key: str, value: Any) -> Mark:  # noqa: ANN401
    function = function_of(value)
    code, defaults = (None, None) if function is None else (function.__code__, function.__defaults__)
    return Mark(name, where, key, value, function, code, defaults)


def module_marks(name: str, module: ModuleType) -> Iterator[Mark]:
    space = space_of(module)
    for key, value in list(space.items()):
        if callable(value):
            yield _mark(f"{name}.{key}", space, key, value)
        within = _CLASS_SPACE.__get__(value) if issubclass(type(value), type) else {}
        if not within or within.get("__module__", "builtins") != name:
            continue
        for attribute, member in list(within.items()):
            if callable(member) or type(member) in _MEMBERS:
                yield _mark(f"{name}.{key}.{attribute}", within, attribute, member)


def classes(name: str, module: ModuleType) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Classes that a module defines, by name, with what they have."""
    for key, value in list(space_of(module).items()):
        within = _CLASS_SPACE.__get__(value) if issubclass(type(value), type) else {}
        if within and within.get("__module__", "builtins") == name:
            yield f"{name}.{key}", within


def part(one: Any, name: str) -> Any:  # noqa: ANN401
    """An attribute that an object has itself, in a slot or among its own names. It is not asked for it."""
    slot = class_attribute(type(one), name)
    if type(slot) is MemberDescriptorType:
        try:
            return slot.__get__(one)
        except AttributeError:  # nothing in it
            return None
    return own_names(one).get(name)


def own_names(one: Any) -> Mapping[Any, Any]:  # noqa: ANN401
    """What an object has of its own, unless its class says something else than Python about that."""
    if type(class_attribute(type(one), "__dict__")) is not GetSetDescriptorType:
        return {}
    found: Mapping[Any, Any] = vars(one)
    return found


def node_id(node: Any) -> str:  # noqa: ANN401
    found = part(node, "_nodeid")
    return found if type(found) is str else ""


def nodes_above(node: Any) -> Iterator[Any]:  # noqa: ANN401
    """The collectors that a test stands in."""
    for _ in range(DEEP):
        node = part(node, "parent")
        if node is None:
            return
        yield node


def loaded_code() -> Iterator[CodeType]:
    """Of every function and method in every loaded module."""
    for name, module in list(modules.items()):
        if issubclass(type(module), ModuleType):
            yield from (mark.code for mark in module_marks(name, module) if mark.code is not None)


def inner_code(code: CodeType) -> Iterator[CodeType]:
    """Of the functions that a function makes."""
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield constant
            yield from inner_code(constant)


def holds(function: Any, original: Any, depth: int = 4) -> bool:  # noqa: ANN401
    """Whether a function has another in its cells, or in the cells of one that it has there."""
    if type(function) is MethodType:
        function = function.__func__
    if function is original:
        return True
    if depth == 0 or type(function) is not FunctionType:
        return False
    for cell in function.__closure__ or ():
        try:
            held = cell.cell_contents
        except ValueError:  # nothing in it yet
            continue
        if holds(held, original, depth - 1):
            return True
    return False


def is_code(mark: Mark, wanted: str) -> bool:
    """Whether a function, or what it honestly wraps, is the code that R has."""
    function = mark.function
    for _ in range(10):
        if type(function) is not FunctionType:
            break
        if code_digest(function.__code__) == wanted:
            return True
        function = vars(function).get("__wrapped__")
    return False


def code_digest(code: CodeType) -> str:
    """Of what code does, not of where it is."""
    whole = sha256(code.co_code + repr((code.co_names, code.co_varnames, code.co_freevars)).encode())
    for constant in code.co_consts:
        inner = code_digest(constant) if isinstance(constant, CodeType) else _constant(constant)
        whole.update(inner.encode("utf-8", "backslashreplace"))
    return whole.hexdigest()[:32]


def written_code(file: str) -> frozenset[str]:
    """Digests of every function in a file."""
    try:
        with open(file, "rb") as source:  # noqa: PTH123
            module = compile(source.read(), file, "exec", dont_inherit=True)
    except (OSError, ValueError, SyntaxError, RecursionError, MemoryError):
        return frozenset()
    return frozenset(code_digest(code) for code in inner_code(module))


def _constant(value: object) -> str:
    """A constant as text that is the same in every process: the order of a set is not."""
    return repr(sorted(map(repr, value))) if isinstance(value, frozenset) else repr(value)


def written_tree(file: str) -> Any:  # noqa: ANN401 - a module of `ast`
    """The syntax of a file; None for what is no Python."""
    try:
        with open(file, "rb") as source:  # noqa: PTH123
            return compile(source.read(), file, "exec", PyCF_ONLY_AST, dont_inherit=True)
    except (OSError, ValueError, SyntaxError, RecursionError, MemoryError):
        return None


def class_attribute(kind: type, name: str) -> Any:  # noqa: ANN401
    """What a class or one above it has by this name, read past whatever they have to say about that themselves."""
    for one in _CLASS_ORDER.__get__(kind):
        found = _CLASS_SPACE.__get__(one).get(name, _CLASS_SPACE)
        if found is not _CLASS_SPACE:
            return found
    return None


def names_above(name: str) -> Iterator[str]:
    """`a.b` and `a` of `a.b`."""
    parts = name.split(".")
    return (".".join(parts[:count]) for count in range(1, len(parts) + 1))


def decorations(body: list[ast.stmt], within: str) -> Iterator[tuple[str, list[ast.expr]]]:
    """Functions and classes with their decorators, by the name that they have in their module."""
    for node in body:
        if isinstance(node, (FunctionDef, AsyncFunctionDef, ClassDef)):
            yield within + node.name, node.decorator_list
            if isinstance(node, ClassDef):
                yield from decorations(node.body, f"{within}{node.name}.")
        else:
            for part in ("body", "orelse", "finalbody"):
                yield from decorations(getattr(node, part, None) or [], within)


def origin(module: ModuleType, decorator: ast.expr) -> str:
    """The file that a decorator comes from, as far as the first part of its name tells."""
    while isinstance(decorator, (Call, Attribute)):
        decorator = decorator.func if isinstance(decorator, Call) else decorator.value
    found = space_of(module).get(decorator.id) if isinstance(decorator, Name) else None
    if issubclass(type(found), ModuleType):
        return file_of(found)
    # Of a function and of a class its own, of anything else its class's: what stands there may answer by running code.
    if type(found) is FunctionType:
        home: Any = found.__module__
    else:
        home = _CLASS_HOME.__get__(found if issubclass(type(found), type) else type(found))
    return file_of(modules.get(home)) if type(home) is str else ""


def is_frozen(value: Any) -> bool:  # noqa: ANN401
    """Whether it is what an installed package that freezes time puts in the place of a clock, in tests too."""
    homes = [one for name, one in list(modules.items()) if name.split(".")[0] in FREEZERS]
    return any(value is one for home in homes if "-packages/" in file_of(home) for one in space_of(home).values())


def strange_support(support: Mapping[str, list[str]], workspace: str) -> list[str]:
    """Modules that have the name of what lies with the tests, and are none of the files that R has by that name."""
    found = []
    for name, module in list(modules.items()):
        # What pytest has made of a conftest is looked at elsewhere.
        if name not in support or name.endswith("conftest"):
            continue
        file = file_of(module)
        own = [workspace + one if one else "" for one in support[name]]
        if file not in own and not any(_is_same_file(file, one) for one in own):
            found.append(f"module {name} is {file or 'of no file'}")
    return found


def _is_same_file(one: str, other: str) -> bool:
    """Whatever links lead there: the tests of a project may lie behind one."""
    try:
        left, right = stat(one), stat(other)
    except (OSError, ValueError):
        return False
    return (left.st_dev, left.st_ino) == (right.st_dev, right.st_ino)
