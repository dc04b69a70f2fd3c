"""Finds the assertions at the end of a test. Pure.

Only the last statements of a test are mutated, so that no cleanup is skipped.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from types import MappingProxyType

from agentbench.acceptance.decoys.literals import unwrapped
from agentbench.acceptance.decoys.source_file import TestDef, names_in

_UNSUITABLE_DECORATORS = frozenset({"given", "flaky", "xfail", "retry", "repeat"})
"""Decorators of tests that may fail or that run many times."""
_EXCEPTION_CONTEXTS = frozenset(
    {"raises", "warns", "suppress", "assertRaises", "assertRaisesRegex", "assertWarns", "deprecated_call"}
)
"""Context managers that may swallow or expect an exception: an assertion inside has another meaning."""
RAISES = frozenset({"raises", "assertRaises"})
OPPOSITE = {
    "assertTrue": "assertFalse",
    "assertFalse": "assertTrue",
    "assertIn": "assertNotIn",
    "assertNotIn": "assertIn",
    "assertIs": "assertIsNot",
    "assertIsNot": "assertIs",
    "assertIsNone": "assertIsNotNone",
    "assertIsNotNone": "assertIsNone",
    "assertIsInstance": "assertNotIsInstance",
    "assertNotEqual": "assertEqual",
}
"""Assertions of unittest about a condition."""
EQUALITIES = frozenset(
    {"assertEqual", "assertEquals", "assertListEqual", "assertDictEqual", "assertTupleEqual", "assertSetEqual"}
    | {"assertSequenceEqual", "assertMultiLineEqual", "assertCountEqual"}
)
"""Assertions of unittest that compare their first two arguments."""
_EQUALITY_FUNCTIONS = frozenset({"assert_equal", "assert_equals", "eq_", "assert_array_equal", "assert_almost_equal"})
"""Functions of test helpers that do the same."""


Helpers = Mapping[str, tuple[int, str]]
"""Functions that compare a parameter with what they compute, with the parameter's position and name."""


def comparing_helpers(module: ast.Module, test: TestDef) -> Helpers:
    """Return the helper functions that the module or the test itself defines."""
    helpers: dict[str, tuple[int, str]] = {}
    for node in (*module.body, *test.body):
        if isinstance(node, ast.FunctionDef):
            helpers.pop(node.name, None)
            parameters = [argument.arg for argument in (*node.args.posonlyargs, *node.args.args)]
            branches = [] if node.decorator_list or _returns(node) else _last_branches(node, parameters)
            compared = [name for name in parameters if branches and _is_compared(name, node, branches)]
            if compared:
                helpers[node.name] = (parameters.index(compared[-1]), compared[-1])
    return helpers


def _last_branches(helper: ast.FunctionDef, parameters: list[str]) -> list[list[ast.stmt]]:
    """Return the blocks of which one ends a function. Nothing that the code under test returns decides which one."""
    match helper.body[-1]:
        case ast.If(test=ast.Name(id=name), body=body, orelse=orelse) if name in parameters:
            return [body, orelse]
    return [helper.body]


def _is_compared(name: str, helper: ast.FunctionDef, branches: list[list[ast.stmt]]) -> bool:
    """Return whether a function uses a parameter in comparisons at its end, in each branch, and nowhere else."""
    uses = {id(node) for node in ast.walk(helper) if isinstance(node, ast.Name) and node.id == name}
    for branch in branches:
        sides = [side for statement in _final_assertions(branch, {}) for side in compared_sides(statement) or ()]
        compared = uses & {id(unwrapped(side)) for side in sides}
        uses -= compared
        if not compared:
            return False
    return not uses


def final_assertions(test: TestDef, helpers: Helpers) -> list[ast.stmt]:
    """Return the assertions at the end of a test, followed by nothing but assertions and assignments between them.

    A test that returns early or runs more than once has none.
    """
    decorators = {name for node in test.decorator_list for name in names_in(node)}
    return [] if _returns(test) or decorators & _UNSUITABLE_DECORATORS else _final_assertions(test.body, helpers)


def _returns(test: TestDef) -> bool:
    return any(isinstance(node, ast.Return | ast.Yield | ast.YieldFrom) for node in _own_nodes(test))


def _own_nodes(test: TestDef) -> Iterator[ast.AST]:
    """Yield the nodes of a function without those of functions nested in it."""
    pending: list[ast.AST] = list(test.body)
    while pending:
        node = pending.pop()
        yield node
        if not isinstance(node, TestDef | ast.Lambda | ast.ClassDef):
            pending += ast.iter_child_nodes(node)


def _final_assertions(body: list[ast.stmt], helpers: Helpers) -> list[ast.stmt]:
    assertions: list[ast.stmt] = []
    for statement in reversed(body):
        if _is_assertion(statement, helpers):
            assertions.append(statement)
        elif not assertions or not isinstance(statement, ast.Assign | ast.AnnAssign):
            break
    if assertions or not body:
        return assertions
    last = body[-1]
    if isinstance(last, ast.With | ast.AsyncWith):
        contexts = {name for item in last.items for name in names_in(item.context_expr)}
        if contexts & RAISES:
            return [last]
        return [] if contexts & _EXCEPTION_CONTEXTS else _final_assertions(last.body, helpers)
    if isinstance(last, ast.For) and not last.orelse and _has_rows(last.iter):
        return _final_assertions(last.body, helpers)
    return []


def _has_rows(table: ast.expr) -> bool:
    """Return whether a loop has a first step, or over a name, which the reference must prove."""
    match table:
        case ast.List(elts=rows) | ast.Tuple(elts=rows):
            return bool(rows)
        case ast.Call(func=ast.Name(id="range"), args=[ast.Constant(value=int() as stop)]):
            return stop > 0
    return isinstance(table, ast.Name)


def _is_assertion(statement: ast.stmt, helpers: Helpers) -> bool:
    if isinstance(statement, ast.Assert) or compared_sides(statement, helpers) is not None or _raising_call(statement):
        return True
    return isinstance(statement, ast.Expr) and unittest_assertion(statement.value) is not None


def expected_exception(statement: ast.stmt) -> ast.Call | None:
    """Return the call of `raises` that an assertion consists of, or None."""
    if isinstance(statement, ast.With | ast.AsyncWith) and len(statement.items) == 1:
        call = statement.items[0].context_expr
        return call if isinstance(call, ast.Call) and call.args and names_in(call.func) & RAISES else None
    return _raising_call(statement)


def _raising_call(statement: ast.stmt) -> ast.Call | None:
    """Return a call such as `self.assertRaises(ValueError, function, argument)`."""
    call = statement.value if isinstance(statement, ast.Expr) else None
    if isinstance(call, ast.Call) and len(call.args) > 1:
        name = call.func.attr if isinstance(call.func, ast.Attribute) else ""
        return call if name in RAISES and not isinstance(call.args[0], ast.Starred) else None
    return None


def unittest_assertion(node: ast.expr) -> tuple[ast.Call, str] | None:
    """Return the call of an assertion method of unittest and its name, or None."""
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and isinstance(node.func.value, ast.Name):
        name = node.func.attr
        if node.func.value.id == "self" and (name in OPPOSITE or name in EQUALITIES):
            return node, name
    return None


def compared_sides(statement: ast.stmt, helpers: Helpers = MappingProxyType({})) -> tuple[ast.expr, ast.expr] | None:
    """Return the expected and the actual side of an assertion that two values are equal, or None.

    A helper's call stands for the value that the helper computes.
    """
    match statement:
        case ast.Expr(value=ast.Call(func=ast.Name(id=name), args=args, keywords=keywords) as call) if name in helpers:
            position, parameter = helpers[name]
            if any(isinstance(argument, ast.Starred) for argument in args):
                return None
            given = [
                *args[position : position + 1],
                *(keyword.value for keyword in keywords if keyword.arg == parameter),
            ]
            return (given[0], call) if given else None
        case ast.Assert(test=ast.Compare(left=left, ops=[ast.Eq()], comparators=[right])):
            return right, left
        case ast.Expr(value=ast.Call(func=function, args=[ast.expr() as first, ast.expr() as second, *_]) as call):
            named = unittest_assertion(call)
            name = function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")
            compares = name in _EQUALITY_FUNCTIONS or (named is not None and named[1] in EQUALITIES)
            starred = isinstance(first, ast.Starred) or isinstance(second, ast.Starred)
            return (second, first) if compares and not starred else None
    return None
