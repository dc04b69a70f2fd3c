"""The tests that a row of SWE-bench names: ids of pytest as they are, bare names tied to the file that has them. Pure."""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Iterator, Mapping, Sequence

from agentbench.core.errors import InputError
from agentbench.core.python_syntax import parse as parse_python

_BARE = re.compile(r"(?s)([A-Za-z_]\w*)(\[.*\])?")
LISTED = 4


def ids(value: object, key: str) -> tuple[str, ...]:
    """A list, or a string that holds one as JSON or as Python writes it. Ids keep every character.

    Raises:
        InputError: no such list.
    """
    if isinstance(value, str):
        value = _listed(value, key)
    if value is None:
        return ()
    if not isinstance(value, list | tuple) or not all(isinstance(item, str) and item for item in value):
        raise InputError(f"{key}: expected a list of test ids")
    for item in value:
        if any("\ud800" <= character <= "\udfff" for character in item):
            raise InputError(f"{key}: {item!r} has half of a surrogate pair, which no file can hold")
    return tuple(dict.fromkeys(value))


def whole(test: str) -> bool:
    """Whether it is an id of pytest."""
    return "::" in test.partition("[")[0]


def _foreign(test: str, key: str) -> InputError:
    return InputError(
        f"{key}: {test!r} is neither a test id of pytest (file::test) nor the bare name of a test function",
        remedy="write the ids as pytest prints them (pytest --collect-only -q), or leave the row out",
    )


def _listed(text: str, key: str) -> object:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        pass
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError, RecursionError, MemoryError):  # what Python's parser says of deep nesting
        raise InputError(f"{key}: expected a list of test ids, or a string that holds one") from None


def tied(tests: Sequence[str], files: Mapping[str, bytes], key: str) -> dict[str, str]:
    """Ids for all of them, each with what the row says.

    A bare name, as rows of sympy have them, is that of the one function called so in `files`.

    Raises:
        InputError: no function has the name, or several do; or it is no name at all.
    """
    for test in tests:
        if not whole(test) and not _BARE.fullmatch(test):
            raise _foreign(test, key)
    if all(whole(test) for test in tests):
        return {test: test for test in tests}
    known: dict[str, dict[str, None]] = {}
    for path, content in files.items():
        if path.endswith(".py"):
            for name, test in _functions(path, content):
                known.setdefault(name, {})[test] = None
    return {test if whole(test) else _tied(test, known, files, key): test for test in tests}


def _tied(test: str, known: Mapping[str, Mapping[str, None]], files: Mapping[str, bytes], key: str) -> str:
    match = _BARE.fullmatch(test)
    name, parameters = (match[1], match[2] or "") if match else (test, "")
    found = list(known.get(name, ()))
    if len(found) == 1:
        return found[0] + parameters
    if found:
        why = f"is the name of {len(found)} tests: {', '.join(found[:LISTED])}"
    else:
        why = f"is the name of no test in the files of test_patch ({', '.join(list(files)[:LISTED])})"
    raise InputError(f"{key}: {test!r} {why}", remedy="write its id as file::test")


def _functions(path: str, content: bytes) -> Iterator[tuple[str, str]]:
    """Names of functions and methods, with the ids that pytest would give them."""
    try:
        tree = parse_python(content)
    except (SyntaxError, ValueError, RecursionError):
        return
    todo: list[tuple[str, ast.AST]] = [(path, tree)]
    while todo:
        prefix, node = todo.pop()
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef):
                yield child.name, f"{prefix}::{child.name}"
            elif isinstance(child, ast.ClassDef):
                todo.append((f"{prefix}::{child.name}", child))
            elif isinstance(child, ast.If | ast.Try | ast.With | ast.ExceptHandler):
                todo.append((prefix, child))
