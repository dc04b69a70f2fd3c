"""Reads and compares functions and their code without calling any code that belongs to them.

Loaded for the runner monitor alone and not listed in `sys.modules`, so that code under test cannot import it.
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

# Bound here, before any code under test: names that are looked up later could have been given another meaning.
_MODULE_DICT: Any = vars(ModuleType)["__dict__"]
_CLASS_DICT: Any = vars(type)["__dict__"]
_CLASS_MRO: Any = vars(type)["__mro__"]
_CLASS_MODULE: Any = vars(type)["__module__"]


MAX_DEPTH = 100
TIME_FREEZERS = frozenset({"freezegun"})
_MEMBER_TYPES = (classmethod, staticmethod, property, MemberDescriptorType, GetSetDescriptorType)


class Binding(NamedTuple):
    """A name in a namespace and its original value. `function` is None if the value has no code that could change."""

    name: str
    namespace: Mapping[str, Any]
    key: str
    value: Any
    function: Any
    code: Any
    defaults: Any


def module_namespace(module: Any) -> Mapping[str, Any]:  # noqa: ANN401
    """Return the namespace of a module without triggering its own attribute access."""
    return _MODULE_DICT.__get__(module) if issubclass(type(module), ModuleType) else {}


def module_file(module: Any) -> str:  # noqa: ANN401
    file = module_namespace(module).get("__file__")
    return file if type(file) is str else ""


def code_of(value: Any) -> CodeType | None:  # noqa: ANN401
    function = function_of(value)
    return None if function is None else function.__code__


def function_of(value: Any) -> FunctionType | None:  # noqa: ANN401
    """Return the function itself or the one inside a wrapper type of Python. Other objects are never called."""
    if type(value) in (MethodType, classmethod, staticmethod):
        value = value.__func__
    elif type(value) is property:
        value = value.fget
    return value if type(value) is FunctionType else None


def _binding(name: str, namespace: Mapping[str, Any], key: str, value: Any) -> Binding:  # noqa: ANN401
    function = function_of(value)
    code, defaults = (None, None) if function is None else (function.__code__, function.__defaults__)
    return Binding(name, namespace, key, value, function, code, defaults)


def module_bindings(name: str, module: ModuleType) -> Iterator[Binding]:
    namespace = module_namespace(module)
    for key, value in list(namespace.items()):
        if callable(value):
            yield _binding(f"{name}.{key}", namespace, key, value)
        class_namespace = _CLASS_DICT.__get__(value) if issubclass(type(value), type) else {}
        if not class_namespace or class_namespace.get("__module__", "builtins") != name:
            continue
        for attribute, member in list(class_namespace.items()):
            if callable(member) or type(member) in _MEMBER_TYPES:
                yield _binding(f"{name}.{key}.{attribute}", class_namespace, attribute, member)


def defined_classes(name: str, module: ModuleType) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Return the classes that a module defines, by name, with their namespaces."""
    for key, value in list(module_namespace(module).items()):
        class_namespace = _CLASS_DICT.__get__(value) if issubclass(type(value), type) else {}
        if class_namespace and class_namespace.get("__module__", "builtins") == name:
            yield f"{name}.{key}", class_namespace


def own_attribute(instance: Any, name: str) -> Any:  # noqa: ANN401
    """Read an attribute from an object's slot or `__dict__` without running code of its class."""
    slot = class_attribute(type(instance), name)
    if type(slot) is MemberDescriptorType:
        try:
            return slot.__get__(instance)
        except AttributeError:  # empty slot
            return None
    return instance_dict(instance).get(name)


def instance_dict(instance: Any) -> Mapping[Any, Any]:  # noqa: ANN401
    """Return an object's `__dict__`, or nothing if its class replaces that attribute."""
    if type(class_attribute(type(instance), "__dict__")) is not GetSetDescriptorType:
        return {}
    attributes: Mapping[Any, Any] = vars(instance)
    return attributes


def node_id(node: Any) -> str:  # noqa: ANN401
    """Return the id of a test or collector, which pytest 9.2 and later keep in an object of their own."""
    structured = own_attribute(node, "_id")
    found = own_attribute(node, "_nodeid") if structured is None else own_attribute(structured, "_str_cache")
    return found if type(found) is str else ""


def parent_nodes(node: Any) -> Iterator[Any]:  # noqa: ANN401
    """Return the collectors that contain a test."""
    for _ in range(MAX_DEPTH):
        node = own_attribute(node, "parent")
        if node is None:
            return
        yield node


def loaded_code() -> Iterator[CodeType]:
    """Return the code of every function and method in every loaded module."""
    for name, module in list(modules.items()):
        if issubclass(type(module), ModuleType):
            yield from (binding.code for binding in module_bindings(name, module) if binding.code is not None)


def inner_code(code: CodeType) -> Iterator[CodeType]:
    """Return the code of all functions nested in a function."""
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield constant
            yield from inner_code(constant)


def closure_contains(function: Any, original: Any, depth: int = 4) -> bool:  # noqa: ANN401
    """Return whether a function's closure contains another function, directly or through functions in its cells."""
    if type(function) is MethodType:
        function = function.__func__
    if function is original:
        return True
    if depth == 0 or type(function) is not FunctionType:
        return False
    for cell in function.__closure__ or ():
        try:
            content = cell.cell_contents
        except ValueError:  # empty cell
            continue
        if closure_contains(content, original, depth - 1):
            return True
    return False


def matches_digest(binding: Binding, wanted: str) -> bool:
    """Return whether a function, or one that it wraps, has the code with this digest."""
    function = binding.function
    for _ in range(10):
        if type(function) is not FunctionType:
            break
        if code_digest(function.__code__) == wanted:
            return True
        function = vars(function).get("__wrapped__")
    return False


def code_digest(code: CodeType) -> str:
    """Return a digest of what code does, independent of its position."""
    digest = sha256(code.co_code + repr((code.co_names, code.co_varnames, code.co_freevars)).encode())
    for constant in code.co_consts:
        inner = code_digest(constant) if isinstance(constant, CodeType) else _constant(constant)
        digest.update(inner.encode("utf-8", "backslashreplace"))
    return digest.hexdigest()[:32]


def source_digests(file: str) -> frozenset[str]:
    """Return the digests of every function in a file."""
    try:
        with open(file, "rb") as source:  # noqa: PTH123
            module = compile(source.read(), file, "exec", dont_inherit=True)
    except (OSError, ValueError, SyntaxError, RecursionError, MemoryError):
        return frozenset()
    return frozenset(code_digest(code) for code in inner_code(module))


def _constant(value: object) -> str:
    """Return a constant as text that is the same in every process. The order of a set is not."""
    return repr(sorted(map(repr, value))) if isinstance(value, frozenset) else repr(value)


def parse_file(file: str) -> Any:  # noqa: ANN401 - an `ast.Module`
    """Return the syntax tree of a file, or None if it is not Python."""
    try:
        with open(file, "rb") as source:  # noqa: PTH123
            return compile(source.read(), file, "exec", PyCF_ONLY_AST, dont_inherit=True)
    except (OSError, ValueError, SyntaxError, RecursionError, MemoryError):
        return None


def class_attribute(kind: type, name: str) -> Any:  # noqa: ANN401
    """Look an attribute up in a class and its bases without triggering their own attribute access."""
    for base in _CLASS_MRO.__get__(kind):
        attribute = _CLASS_DICT.__get__(base).get(name, _CLASS_DICT)
        if attribute is not _CLASS_DICT:
            return attribute
    return None


def dotted_prefixes(name: str) -> Iterator[str]:
    """Return the dotted prefixes of a name: `a` and `a.b` for `a.b`."""
    parts = name.split(".")
    return (".".join(parts[:count]) for count in range(1, len(parts) + 1))


def decorated_definitions(body: list[ast.stmt], prefix: str) -> Iterator[tuple[str, list[ast.expr]]]:
    """Return functions and classes, by their name within the module, with their decorators."""
    for node in body:
        if isinstance(node, (FunctionDef, AsyncFunctionDef, ClassDef)):
            yield prefix + node.name, node.decorator_list
            if isinstance(node, ClassDef):
                yield from decorated_definitions(node.body, f"{prefix}{node.name}.")
        else:
            for block in ("body", "orelse", "finalbody"):
                yield from decorated_definitions(getattr(node, block, None) or [], prefix)


def decorator_file(module: ModuleType, decorator: ast.expr) -> str:
    """Return the file that a decorator comes from, judged by the first part of its name."""
    while isinstance(decorator, (Call, Attribute)):
        decorator = decorator.func if isinstance(decorator, Call) else decorator.value
    value = module_namespace(module).get(decorator.id) if isinstance(decorator, Name) else None
    if issubclass(type(value), ModuleType):
        return module_file(value)
    # Functions and classes have a `__module__` of their own. For anything else the class is asked, because the
    # object's attribute could run code.
    if type(value) is FunctionType:
        module_name: Any = value.__module__
    else:
        module_name = _CLASS_MODULE.__get__(value if issubclass(type(value), type) else type(value))
    return module_file(modules.get(module_name)) if type(module_name) is str else ""


def is_frozen_clock(value: Any) -> bool:  # noqa: ANN401
    """Return whether an installed time-freezing package put this value in the place of a clock."""
    freezers = [module for name, module in list(modules.items()) if name.split(".")[0] in TIME_FREEZERS]
    return any(
        value is frozen
        for freezer in freezers
        if "-packages/" in module_file(freezer)
        for frozen in module_namespace(freezer).values()
    )


def replaced_support_modules(support: Mapping[str, list[str]], workspace: str) -> list[str]:
    """Return modules with the name of a test support module that are not its file in the base repository."""
    replaced = []
    for name, module in list(modules.items()):
        # Conftests that pytest loaded are checked elsewhere.
        if name not in support or name.endswith("conftest"):
            continue
        file = module_file(module)
        expected = [workspace + path if path else "" for path in support[name]]
        if file not in expected and not any(_is_same_file(file, path) for path in expected):
            replaced.append(f"module {name} comes from {file or 'no file'}")
    return replaced


def _is_same_file(path: str, other: str) -> bool:
    """Compare by device and inode: a project's tests may lie behind a link."""
    try:
        left, right = stat(path), stat(other)
    except (OSError, ValueError):
        return False
    return (left.st_dev, left.st_ino) == (right.st_dev, right.st_ino)
