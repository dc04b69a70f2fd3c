"""Test ids in SWE-bench rows: parse the lists, and translate bare names and unittest ids to pytest ids. Pure.

A unittest id is `test_a (package.module.Class)`, or since Python 3.11 `test_a (package.module.Class.test_a)`.
"""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Collection, Iterator, Mapping, Sequence

from agentbench.authoring.environment.requirements import Read
from agentbench.core.dataclass import dataclass
from agentbench.core.errors import InputError
from agentbench.core.python_syntax import parse_or_none

_BARE = re.compile(r"(?s)([A-Za-z_]\w*)(\[.*\])?")
_UNITTEST = re.compile(r"(\w+) \(([\w.]+)\)")
_UNITTEST_REMEDY = "if pytest can run these tests, write their ids as file::Class::test; otherwise remove the row"
LISTED = 4


def parse_ids(value: object, key: str) -> tuple[str, ...]:
    """Parse a list of test ids, or a string with such a list as JSON or Python literal. Ids keep every character.

    Raises:
        InputError: the value is not such a list.
    """
    if isinstance(value, str):
        value = _parse_list(value, key)
    if value is None:
        return ()
    if not isinstance(value, list | tuple) or not all(isinstance(item, str) and item for item in value):
        raise InputError(f"{key}: expected a list of test ids")
    for item in value:
        if any("\ud800" <= character <= "\udfff" for character in item):
            raise InputError(f"{key}: {item!r} contains half of a surrogate pair, which no file can contain")
    return tuple(dict.fromkeys(value))


def _parse_list(text: str, key: str) -> object:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        pass
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError, RecursionError, MemoryError):  # MemoryError: deeply nested
        raise InputError(f"{key}: expected a list of test ids, or a string with such a list") from None


def is_pytest_id(test: str) -> bool:
    return "::" in test.partition("[")[0]


# --- bare function names -------------------------------------------------------------------------------------------


def resolve_bare_names(tests: Sequence[str], files: Mapping[str, bytes], key: str) -> dict[str, str]:
    """Map pytest ids to the row's ids. A bare name, as in sympy rows, must be that of exactly one function in `files`.

    Raises:
        InputError: no function or several functions have the name, or the id is not a name at all.
    """
    for test in tests:
        if not is_pytest_id(test) and not _BARE.fullmatch(test):
            raise InputError(
                f"{key}: {test!r} is neither a pytest id (file::test) nor the name of a test function",
                remedy="write the ids as `pytest --collect-only -q` prints them, or remove the row",
            )
    if all(is_pytest_id(test) for test in tests):
        return {test: test for test in tests}
    ids_by_name: dict[str, dict[str, None]] = {}
    for path, content in files.items():
        if path.endswith(".py"):
            for node, test in _definitions(content):
                if not isinstance(node, ast.ClassDef):
                    ids_by_name.setdefault(test.rpartition("::")[2], {})[path + test] = None
    return {test if is_pytest_id(test) else _resolve_bare_name(test, ids_by_name, files, key): test for test in tests}


def _resolve_bare_name(
    test: str, ids_by_name: Mapping[str, Mapping[str, None]], files: Mapping[str, bytes], key: str
) -> str:
    match = _BARE.fullmatch(test)
    name, parameters = (match[1], match[2] or "") if match else (test, "")
    candidates = list(ids_by_name.get(name, ()))
    if len(candidates) == 1:
        return candidates[0] + parameters
    if candidates:
        problem = f"is the name of {len(candidates)} tests: {', '.join(candidates[:LISTED])}"
    else:
        problem = f"is not a test in the files of test_patch ({', '.join(list(files)[:LISTED])})"
    raise InputError(f"{key}: {test!r} {problem}", remedy="write its id as file::test")


def _definitions(source: str | bytes) -> Iterator[tuple[ast.stmt, str]]:
    """Yield the functions, methods and classes of a file with their pytest ids below it (`::Case::test_a`)."""
    pending: list[tuple[str, ast.AST]] = [("", parse_or_none(source) or ast.Module([], []))]
    while pending:
        prefix, node = pending.pop()
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                yield child, f"{prefix}::{child.name}"
            if isinstance(child, ast.ClassDef):
                pending.append((f"{prefix}::{child.name}", child))
            elif isinstance(child, ast.If | ast.Try | ast.With | ast.ExceptHandler):
                pending.append((prefix, child))


# --- unittest ids --------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class UnittestId:
    """A parsed unittest id."""

    method: str
    qualname: str
    """Module and class joined by dots; only the files tell where one ends and the other starts."""


def parse_unittest_id(test: str) -> UnittestId | None:
    match = _UNITTEST.fullmatch(test)
    if match is None:
        return None
    method, qualname = match.groups()
    return UnittestId(method, qualname.removesuffix(f".{method}") if "." in qualname else qualname)


def pytest_ids(tests: Sequence[str], paths: Collection[str], read: Read, key: str) -> dict[str, str]:
    """Map pytest ids to the row's unittest ids. `paths` and `read` give the tree with `test_patch` applied.

    Raises:
        InputError: the class of an id cannot be found, or an id has another form.
    """
    classes = _ClassFinder(paths, read)
    rows_by_id: dict[str, str] = {}
    for test in tests:
        parsed = parse_unittest_id(test)
        if parsed is None:
            raise InputError(
                f"{key}: {test!r} is not a unittest id like the others in this row", remedy=_UNITTEST_REMEDY
            )
        location = classes.find(parsed.qualname)
        if location is None:
            raise InputError(f"{key}: {test!r}: no file in the repository has this class", remedy=_UNITTEST_REMEDY)
        rows_by_id[f"{location}::{parsed.method}"] = test
    return rows_by_id


class _ClassFinder:
    """Finds the files that define test classes."""

    def __init__(self, paths: Collection[str], read: Read) -> None:
        self._paths = sorted(path for path in paths if path.endswith(".py"))
        self._existing = frozenset(self._paths)
        self._read = read
        self._classes: dict[str, frozenset[str]] = {}
        self._locations: dict[str, str | None] = {}

    def find(self, qualname: str) -> str | None:
        """Return `tests/test_mod.py::Case` for `tests.test_mod.Case`, or None if there is no such class or several."""
        if qualname not in self._locations:
            self._locations[qualname] = self._search(qualname)
        return self._locations[qualname]

    def _search(self, qualname: str) -> str | None:
        parts = qualname.split(".")
        for split in range(len(parts) - 1, 0, -1):
            name = "".join(f"::{part}" for part in parts[split:])
            files = [path for path in self._module_files("/".join(parts[:split])) if name in self._classes_in(path)]
            if files:
                return files[0] + name if len(files) == 1 else None
        return None

    def _module_files(self, module: str) -> list[str]:
        """Return the files a module may be: below the root, or below the folder in which the runner was started."""
        names = (f"{module}.py", f"{module}/__init__.py")
        direct = [name for name in names if name in self._existing]
        return direct or [path for path in self._paths if path.endswith(tuple(f"/{name}" for name in names))]

    def _classes_in(self, path: str) -> frozenset[str]:
        if path not in self._classes:
            definitions = _definitions(self._read(path) or "")
            self._classes[path] = frozenset(name for node, name in definitions if isinstance(node, ast.ClassDef))
        return self._classes[path]
