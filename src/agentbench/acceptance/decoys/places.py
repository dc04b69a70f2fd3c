"""Finds where the expected value of an assertion is written. Pure.

An expected value is a literal, or a name whose value is written as a literal elsewhere in the file: a local variable, a
row of a loop, a row of `parametrize`, a module constant or a fixture. A name counts only if it is used for nothing but
this comparison, so that changing its value changes what is expected and nothing else, and the real value is not left
elsewhere.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence

from agentbench.acceptance.decoys.assertions import Helpers, compared_sides
from agentbench.acceptance.decoys.literals import unwrapped
from agentbench.acceptance.decoys.mutation import Row
from agentbench.acceptance.decoys.source_file import SourceFile, TestDef, local_value, names_in
from agentbench.core.dataclass import dataclass


@dataclass(frozen=True, slots=True)
class WrittenValue:
    """The expression that an expected value is written as, and the row of `parametrize` if it is in one."""

    node: ast.expr
    row: Row | None = None
    param: ast.Call | None = None
    """The `pytest.param(...)` of that row, which may give it an id."""
    searched: bool = False
    """Whether the text is searched for in a longer one, which may also contain other texts of the file."""


def written_values(
    side: ast.expr, test: TestDef, assertions: Sequence[ast.stmt], file: SourceFile, helpers: Helpers
) -> list[WrittenValue]:
    """Return where the value of one side of a comparison is written; several if it has a table with rows."""
    side = unwrapped(side)
    if not isinstance(side, ast.Name):
        return [WrittenValue(side)]
    name = side.id
    if not _only_compared(name, test, assertions, helpers):
        return []
    if any(argument.arg == name for argument in _arguments(test)):
        return list(_parameter_rows(name, test, file)) or _fixture_value(name, file)
    loop = next((cells for cells in _loop_cells(name, test, file) if cells), None)
    if loop is not None:
        return [WrittenValue(cell) for cell in loop]
    value = local_value(name, test)
    bound = any(
        isinstance(node, ast.Name) and node.id == name and not isinstance(node.ctx, ast.Load) for node in ast.walk(test)
    )
    value = value if bound else file.module_constant(name)
    return [] if value is None else [WrittenValue(value)]


def _only_compared(name: str, test: TestDef, assertions: Sequence[ast.stmt], helpers: Helpers) -> bool:
    """Return whether a test uses a name for nothing but comparisons at its end."""
    sides = [unwrapped(side) for statement in assertions for side in compared_sides(statement, helpers) or ()]
    reads = [
        node
        for part in test.body
        for node in ast.walk(part)
        if isinstance(node, ast.Name) and node.id == name and isinstance(node.ctx, ast.Load)
    ]
    return all(any(read is side for side in sides) for read in reads)


def _arguments(test: TestDef) -> list[ast.arg]:
    return [*test.args.posonlyargs, *test.args.args, *test.args.kwonlyargs]


# --- tables -----------------------------------------------------------------------------------------------------------


def _loop_cells(name: str, test: TestDef, file: SourceFile) -> Iterator[list[ast.expr]]:
    """Yield the values of a loop variable, for each loop of the test that binds it."""
    for loop in ast.walk(test):
        if isinstance(loop, ast.For) and name in names_in(loop.target):
            table = _table(loop.iter, test, file)
            if isinstance(loop.target, ast.Tuple):
                targets = [target.id if isinstance(target, ast.Name) else "" for target in loop.target.elts]
                cells = (_cell(row, targets.index(name), len(targets)) for row in table if name in targets)
                table = [cell for cell in cells if cell is not None]
            yield table


def _table(node: ast.expr, test: TestDef | None, file: SourceFile) -> list[ast.expr]:
    """Return the rows of a table that is written in place or as a constant used only here."""
    if isinstance(node, ast.Name):
        value = None if test is None else local_value(node.id, test)
        if value is not None and test is not None:
            reads = [part for part in ast.walk(test) if isinstance(part, ast.Name) and part.id == node.id]
            value = value if len(reads) == 2 else None
        node = value or file.module_constant(node.id) or node
    plain = isinstance(node, ast.List | ast.Tuple) and not any(isinstance(row, ast.Starred) for row in node.elts)
    return list(node.elts) if plain and isinstance(node, ast.List | ast.Tuple) else []


def _cell(row: ast.expr, column: int, columns: int) -> ast.expr | None:
    parts = row.elts if isinstance(row, ast.Tuple | ast.List) else _param_values(row)
    return parts[column] if len(parts) == columns and not any(isinstance(part, ast.Starred) for part in parts) else None


def _param_values(row: ast.expr) -> list[ast.expr]:
    """Return the values of `pytest.param(...)`, without those of rows that need not pass."""
    if isinstance(row, ast.Call) and names_in(row.func) >= {"param"}:
        return row.args
    return []


def _parameter_rows(name: str, test: TestDef, file: SourceFile) -> Iterator[WrittenValue]:
    for decorator in test.decorator_list:
        if not isinstance(decorator, ast.Call) or "parametrize" not in names_in(decorator.func):
            continue
        given = dict(zip(("argnames", "argvalues"), decorator.args, strict=False))
        given |= {keyword.arg: keyword.value for keyword in decorator.keywords if keyword.arg}
        columns = _column_names(given.get("argnames"))
        if name not in columns or "argvalues" not in given or "indirect" in given:
            continue
        for index, row in enumerate(_table(given["argvalues"], None, file)):
            single = row if len(columns) == 1 and not _param_values(row) else None
            cell = single or _cell(row, columns.index(name), len(columns))
            if cell is not None:
                yield WrittenValue(cell, (name, index), row if isinstance(row, ast.Call) and cell is not row else None)


def _column_names(node: ast.expr | None) -> list[str]:
    match node:
        case ast.Constant(value=str() as text):
            return [part.strip() for part in text.split(",") if part.strip()]
        case ast.Tuple(elts=parts) | ast.List(elts=parts):
            return [str(part.value) if isinstance(part, ast.Constant) else "" for part in parts]
    return []


# --- fixtures ---------------------------------------------------------------------------------------------------------


def _fixture_value(name: str, file: SourceFile) -> list[WrittenValue]:
    """Return what a fixture of the file returns, if it only returns a literal to a single test."""
    if file.parameters[name] != 1 or any(node.value == name for node in file.constants):
        return []
    for place, function in file.functions.items():
        decorators = function.decorator_list
        if place[-1] == name and len(decorators) == 1 and "fixture" in names_in(decorators[0]):
            match function.body:
                case [*documentation, ast.Return(value=ast.expr() as value)] if all(map(_is_text, documentation)):
                    has_options = isinstance(decorators[0], ast.Call) and bool(decorators[0].keywords)
                    return [] if has_options else [WrittenValue(value)]
    return []


def _is_text(statement: ast.stmt) -> bool:
    return isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)
