"""Lets pytest parse each file once for all tracebacks, and visit only the statements around a line.

For every entry of a traceback, pytest parses the whole file and visits each node to find the statement of one line. Where
many tests fail on purpose, that is a quarter of a run. The lines it finds are the same.

This is a separate file because the function that stays behind in pytest leads to everything in its module.
"""

from __future__ import annotations

import ast
import warnings
from typing import Any

import _pytest._code.code as tracebacks


def share_syntax_trees() -> None:
    """Replace the function with which tracebacks find the statement of a line."""
    find_statement = vars(tracebacks).get("getstatementrange_ast")
    if find_statement is None:
        return  # a version of pytest that works in another way
    trees: dict[str, ast.Module] = {}

    def getstatementrange_ast(lineno: int, source: Any, assertion: bool = False, astnode: Any = None) -> Any:  # noqa: ANN401, ARG001, FBT001, FBT002 - as in pytest
        text = str(source)
        if text not in trees:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                trees[text] = ast.parse(text)
        return find_statement(lineno, source, assertion, statements_around(trees[text], lineno + 1))

    tracebacks.getstatementrange_ast = getstatementrange_ast  # type: ignore[attr-defined]


def statements_around(tree: ast.Module, line: int) -> ast.Module:
    """Return a module of the statement that has the line and the one after it.

    In a class, these are statements of its body: a class may have hundreds of tests.
    """
    body, following = tree.body, tree.body[:0]
    while True:
        before = [number for number, statement in enumerate(body) if _first_line(statement) <= line]
        if not before:
            return tree
        statement = body[before[-1]]
        following = body[before[-1] + 1 : before[-1] + 2] or following
        if not isinstance(statement, ast.ClassDef) or line < _first_line(statement.body[0]):
            return ast.Module(body=[statement, *following], type_ignores=[])
        body = statement.body


def _first_line(statement: Any) -> int:  # noqa: ANN401 - only functions and classes have decorators
    return min(int(part.lineno) for part in (statement, *getattr(statement, "decorator_list", ())))
