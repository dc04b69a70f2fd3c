"""Functions and their code, read and compared without asking anything of whoever they belong to.

Loaded for the sentinel and for nobody else: like it, in no list of modules, so that code under test has no name for it.
"""

from __future__ import annotations

import ast
import hashlib
import sys
import types
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

_MODULE_SPACE: Any = vars(types.ModuleType)["__dict__"]
_CLASS_SPACE: Any = vars(type)["__dict__"]
_CLASS_HOME: Any = vars(type)["__module__"]


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
    return _MODULE_SPACE.__get__(thing) if issubclass(type(thing), types.ModuleType) else {}


def file_of(module: Any) -> str:  # noqa: ANN401
    file = space_of(module).get("__file__")
    return file if type(file) is str else ""


def code_of(value: Any) -> types.CodeType | None:  # noqa: ANN401
    function = function_of(value)
    return None if function is None else function.__code__


def function_of(value: Any) -> types.FunctionType | None:  # noqa: ANN401
    """The function that a plain wrapper of Python's own has, or that this is. Nobody else is asked."""
    if type(value) in (types.MethodType, classmethod, staticmethod):
        value = value.__func__
    elif type(value) is property:
        value = value.fget
    return value if type(value) is types.FunctionType else None


def _mark(name: str, where: Mapping[str, Any], key: str, value: Any) -> Mark:  # noqa: ANN401
    function = function_of(value)
    code, defaults = (None, None) if function is None else (function.__code__, function.__defaults__)
    return Mark(name, where, key, value, function, code, defaults)


def module_marks(name: str, module: types.ModuleType) -> Iterator[Mark]:
    space = space_of(module)
    for key, value in list(space.items()):
        if callable(value):
            yield _mark(f"{name}.{key}", space, key, value)
        within = _CLASS_SPACE.__get__(value) if issubclass(type(value), type) else {}
        if not within or within.get("__module__", "builtins") != name:
            continue
        for attribute, member in list(within.items()):
            if callable(member) or type(member) in (classmethod, staticmethod, property):
                yield _mark(f"{name}.{key}.{attribute}", within, attribute, member)


def loaded_code() -> Iterator[types.CodeType]:
    """Of every function and method in every loaded module."""
    for name, module in list(sys.modules.items()):
        if issubclass(type(module), types.ModuleType):
            yield from (mark.code for mark in module_marks(name, module) if mark.code is not None)


def inner_code(code: types.CodeType) -> Iterator[types.CodeType]:
    """Of the functions that a function makes."""
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield constant
            yield from inner_code(constant)


def holds(function: Any, original: Any, depth: int = 4) -> bool:  # noqa: ANN401
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
        if holds(held, original, depth - 1):
            return True
    return False


def is_code(mark: Mark, wanted: str) -> bool:
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


def names_above(name: str) -> Iterator[str]:
    """`a.b` and `a` of `a.b`."""
    parts = name.split(".")
    return (".".join(parts[:count]) for count in range(1, len(parts) + 1))


def decorations(body: list[ast.stmt], within: str) -> Iterator[tuple[str, list[ast.expr]]]:
    """Functions and classes with their decorators, by the name that they have in their module."""
    for node in body:
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            yield within + node.name, node.decorator_list
            if isinstance(node, ast.ClassDef):
                yield from decorations(node.body, f"{within}{node.name}.")
        else:
            for part in ("body", "orelse", "finalbody"):
                yield from decorations(getattr(node, part, None) or [], within)


def origin(module: types.ModuleType, decorator: ast.expr) -> str:
    """The file that a decorator comes from, as far as the first part of its name tells."""
    while isinstance(decorator, (ast.Call, ast.Attribute)):
        decorator = decorator.func if isinstance(decorator, ast.Call) else decorator.value
    found = space_of(module).get(decorator.id) if isinstance(decorator, ast.Name) else None
    if issubclass(type(found), types.ModuleType):
        return file_of(found)
    # Of a function and of a class its own, of anything else its class's: what stands there may answer by running code.
    if type(found) is types.FunctionType:
        home: Any = found.__module__
    else:
        home = _CLASS_HOME.__get__(found if issubclass(type(found), type) else type(found))
    return file_of(sys.modules.get(home)) if type(home) is str else ""
