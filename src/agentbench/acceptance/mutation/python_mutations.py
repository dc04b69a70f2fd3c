"""Python code made wrong: one small change at a place, found in the syntax tree and made in the text."""

from __future__ import annotations

import ast
import copy
import warnings
from collections.abc import Callable, Iterator

from agentbench.acceptance.mutation.change import Change
from agentbench.core.python_syntax import parse as parse_python

_BOUNDARY: dict[type[ast.cmpop], type[ast.cmpop]] = {ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt}
_OPPOSITE: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Eq: ast.NotEq, ast.NotEq: ast.Eq, ast.In: ast.NotIn, ast.NotIn: ast.In, ast.Is: ast.IsNot, ast.IsNot: ast.Is,
}  # fmt: skip
_SWAPPED: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.FloorDiv, ast.FloorDiv: ast.Mult, ast.Div: ast.Mult, ast.Mod: ast.Mult,
}  # fmt: skip
_DELETED = (ast.Assign, ast.AugAssign, ast.Expr, ast.Raise, ast.Assert, ast.Delete, ast.If, ast.For)


def parsed(source: bytes) -> ast.Module | None:
    """The tree, or None when it is no Python whose places can be found again in its lines."""
    if b"\r" in source.replace(b"\r\n", b""):
        return None  # The parser ends a line at a lone CR, where nobody else does.
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return parse_python(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


def meaning(source: bytes) -> str | None:
    """The same for two texts that differ only in layout, comments and docstrings; None when it is no Python."""
    tree = parsed(source)
    if tree is None:
        return None
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) and _documented(node):
            node.body = node.body[1:] or [ast.Pass()]
    return ast.dump(tree)


def enclosing(source: bytes, lines: frozenset[int]) -> frozenset[int]:
    """All lines of the functions that hold any of these lines."""
    tree = parsed(source)
    if tree is None:
        return lines
    found = set(lines)
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            span = range(node.lineno, (node.end_lineno or node.lineno) + 1)
            if not lines.isdisjoint(span):
                found.update(span)
    return frozenset(found)


def python_changes(source: bytes) -> Iterator[Change]:
    """Every change of every operator that leaves valid Python with another meaning."""
    original = meaning(source)
    return (one for one in python_edits(source) if meaning(one.content) not in {None, original})


def python_edits(source: bytes, wanted: Callable[[int], bool] = lambda _line: True) -> Iterator[Change]:
    """Every change at the wanted lines, whatever it leaves: to look at each is dear in a long file."""
    tree = parsed(source)
    for node in _walk(tree) if tree is not None else ():
        line = getattr(node, "lineno", 1)
        if wanted(line):
            yield from (Change(operator, line, what, content) for operator, what, content in _changes(node, source))


def _walk(node: ast.AST) -> Iterator[ast.AST]:
    yield node
    if isinstance(node, ast.JoinedStr):
        return  # Before Python 3.12 places inside an f-string are not true.
    for child in ast.iter_child_nodes(node):
        yield from _walk(child)


def _changes(node: ast.AST, source: bytes) -> Iterator[tuple[str, str, bytes]]:
    match node:
        case ast.Return(value=ast.expr() as value):
            for constant in ("None", "0", "True"):
                if ast.unparse(value) != constant:
                    yield "constant_return", f"return {constant}", _splice(source, value, constant)
        case ast.Constant(value=int() as number) if not isinstance(number, bool):
            for other in (number + 1, number - 1):
                yield "off_by_one", f"{number} → {other}", _splice(source, node, f"({other})")
        case ast.If(test=test) | ast.While(test=test) | ast.IfExp(test=test):
            negated = f"not ({ast.unparse(test)})"
            yield "negated_condition", negated, _splice(source, test, f"({negated})")
        case ast.Compare():
            yield from _comparison(node, source)
        case ast.BoolOp() | ast.BinOp():
            yield from _operation(node, source)
        case ast.ExceptHandler(body=body) if not isinstance(body[0], ast.Pass):
            yield "swallowed_exception", "the handler does nothing", _splice_all(source, body, "pass")
        case ast.FunctionDef() | ast.AsyncFunctionDef():
            yield from _swallow(node, source)
        case _:
            pass
    if isinstance(node, _DELETED) and not (isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)):
        yield "deleted_statement", ast.unparse(node).partition("\n")[0][:80], _splice(source, node, "pass")


def _comparison(node: ast.Compare, source: bytes) -> Iterator[tuple[str, str, bytes]]:
    for operator, table in (("off_by_one", _BOUNDARY), ("negated_condition", _OPPOSITE)):
        kind = table.get(type(node.ops[0]))
        if len(node.ops) == 1 and kind is not None:
            other = copy.deepcopy(node)
            other.ops = [kind()]
            text = ast.unparse(other)
            yield operator, text, _splice(source, node, f"({text})")


def _operation(node: ast.BoolOp | ast.BinOp, source: bytes) -> Iterator[tuple[str, str, bytes]]:
    other = copy.deepcopy(node)
    if isinstance(other, ast.BoolOp):
        other.op = ast.Or() if isinstance(other.op, ast.And) else ast.And()
    else:
        kind = _SWAPPED.get(type(other.op))
        if kind is None:
            return
        other.op = kind()
    text = ast.unparse(other)
    yield "swapped_operator", text, _splice(source, node, f"({text})")


def _swallow(node: ast.FunctionDef | ast.AsyncFunctionDef, source: bytes) -> Iterator[tuple[str, str, bytes]]:
    """The whole body in a `try` that swallows: only where something is raised, else it would change nothing."""
    body = node.body[1:] if _documented(node) else node.body
    if not body or not any(isinstance(one, ast.Raise) for one in ast.walk(node)):
        return
    if any(isinstance(one, ast.Constant) and one.lineno != one.end_lineno for part in body for one in ast.walk(part)):
        return  # Moving the lines of a long string to the right would change it.
    first, last = body[0].lineno - 1, body[-1].end_lineno or body[-1].lineno
    if first < node.lineno:
        return
    lines = source.split(b"\n")
    indent = lines[first][: body[0].col_offset]
    inner = [b"    " + line if line.strip() else line for line in lines[first:last]]
    wrapped = [indent + b"try:", *inner, indent + b"except Exception:", indent + b"    return None"]
    yield (
        "swallowed_exception",
        f"{node.name} swallows what it raises",
        b"\n".join([*lines[:first], *wrapped, *lines[last:]]),
    )


def _documented(node: ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    first = node.body[0] if node.body else None
    return isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant) and isinstance(first.value.value, str)


def _splice(source: bytes, node: ast.expr | ast.stmt, text: str) -> bytes:
    return _splice_all(source, [node], text)


def _splice_all(source: bytes, nodes: list[ast.stmt] | list[ast.expr | ast.stmt], text: str) -> bytes:
    """The source with the text from the first node's start to the last one's end replaced. Offsets are in bytes."""
    first, last = nodes[0], nodes[-1]
    lines = source.split(b"\n")
    start, end = first.lineno - 1, (last.end_lineno or last.lineno) - 1
    changed = lines[start][: first.col_offset] + text.encode() + lines[end][last.end_col_offset or 0 :]
    return b"\n".join([*lines[:start], changed, *lines[end + 1 :]])
