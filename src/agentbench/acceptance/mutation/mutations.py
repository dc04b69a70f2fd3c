"""Mutates source code: one small change at one place. Pure.

Python is mutated through its syntax tree, code in other languages by patterns in its lines.
"""

from __future__ import annotations

import ast
import copy
import re
import warnings
from collections.abc import Callable, Iterator, Sequence

from agentbench.core.dataclass import dataclass
from agentbench.core.python_syntax import parse as parse_python

_BOUNDARY: dict[type[ast.cmpop], type[ast.cmpop]] = {ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt}
_OPPOSITE: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Eq: ast.NotEq, ast.NotEq: ast.Eq, ast.In: ast.NotIn, ast.NotIn: ast.In, ast.Is: ast.IsNot, ast.IsNot: ast.Is,
}  # fmt: skip
_SWAPPED: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.FloorDiv, ast.FloorDiv: ast.Mult, ast.Div: ast.Mult, ast.Mod: ast.Mult,
}  # fmt: skip
_DELETABLE = (ast.Assign, ast.AugAssign, ast.Expr, ast.Raise, ast.Assert, ast.Delete, ast.If, ast.For)


@dataclass(frozen=True, slots=True)
class Change:
    """One mutation of a file."""

    operator: str
    line: int
    """Line in the file as the reference leaves it."""
    what: str
    content: bytes
    """The whole mutated file."""


# --- Python -----------------------------------------------------------------------------------------------------------


def parse_source(source: bytes) -> ast.Module | None:
    """Return the syntax tree, or None if it is not Python whose positions can be mapped to its lines."""
    if b"\r" in source.replace(b"\r\n", b""):
        return None  # The parser ends a line at a lone CR, unlike everything else.
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return parse_python(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


def meaning(source: bytes) -> str | None:
    """Return a text that is equal for sources differing only in layout, comments and docstrings. None if not Python."""
    tree = parse_source(source)
    if tree is None:
        return None
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) and _has_docstring(
            node
        ):
            node.body = node.body[1:] or [ast.Pass()]
    return ast.dump(tree)


def enclosing(source: bytes, lines: frozenset[int]) -> frozenset[int]:
    """Return all lines of the functions that contain any of these lines."""
    tree = parse_source(source)
    if tree is None:
        return lines
    enclosed = set(lines)
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            span = range(node.lineno, (node.end_lineno or node.lineno) + 1)
            if not lines.isdisjoint(span):
                enclosed.update(span)
    return frozenset(enclosed)


def python_changes(source: bytes) -> Iterator[Change]:
    """Yield every mutation that leaves valid Python with another meaning."""
    original = meaning(source)
    return (change for change in python_edits(source) if meaning(change.content) not in {None, original})


def python_edits(source: bytes, wanted: Callable[[int], bool] = lambda _line: True) -> Iterator[Change]:
    """Yield every mutation at the wanted lines, without checking the result: that is expensive in a long file."""
    tree = parse_source(source)
    for node in _walk(tree) if tree is not None else ():
        line = getattr(node, "lineno", 1)
        if wanted(line):
            yield from (
                Change(operator, line, what, content) for operator, what, content in _node_changes(node, source)
            )


def _walk(node: ast.AST) -> Iterator[ast.AST]:
    yield node
    if isinstance(node, ast.JoinedStr):
        return  # Before Python 3.12, positions inside an f-string are wrong.
    for child in ast.iter_child_nodes(node):
        yield from _walk(child)


def _node_changes(node: ast.AST, source: bytes) -> Iterator[tuple[str, str, bytes]]:
    match node:
        case ast.Return(value=ast.expr() as value):
            for constant in ("None", "0", "True"):
                if ast.unparse(value) != constant:
                    yield "constant_return", f"return {constant}", _replace(source, constant, value)
        case ast.Constant(value=int() as number) if not isinstance(number, bool):
            for other in (number + 1, number - 1):
                yield "off_by_one", f"{number} → {other}", _replace(source, f"({other})", node)
        case ast.If(test=test) | ast.While(test=test) | ast.IfExp(test=test):
            negated = f"not ({ast.unparse(test)})"
            yield "negated_condition", negated, _replace(source, f"({negated})", test)
        case ast.Compare():
            yield from _comparison_changes(node, source)
        case ast.BoolOp() | ast.BinOp():
            yield from _operator_changes(node, source)
        case ast.ExceptHandler(body=body) if not isinstance(body[0], ast.Pass):
            yield "swallowed_exception", "handler does nothing", _replace(source, "pass", body[0], body[-1])
        case ast.FunctionDef() | ast.AsyncFunctionDef():
            yield from _swallowed_exceptions(node, source)
        case _:
            pass
    if isinstance(node, _DELETABLE) and not (isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)):
        yield "deleted_statement", ast.unparse(node).partition("\n")[0][:80], _replace(source, "pass", node)


def _comparison_changes(node: ast.Compare, source: bytes) -> Iterator[tuple[str, str, bytes]]:
    for operator, table in (("off_by_one", _BOUNDARY), ("negated_condition", _OPPOSITE)):
        kind = table.get(type(node.ops[0]))
        if len(node.ops) == 1 and kind is not None:
            other = copy.deepcopy(node)
            other.ops = [kind()]
            text = ast.unparse(other)
            yield operator, text, _replace(source, f"({text})", node)


def _operator_changes(node: ast.BoolOp | ast.BinOp, source: bytes) -> Iterator[tuple[str, str, bytes]]:
    other = copy.deepcopy(node)
    if isinstance(other, ast.BoolOp):
        other.op = ast.Or() if isinstance(other.op, ast.And) else ast.And()
    else:
        kind = _SWAPPED.get(type(other.op))
        if kind is None:
            return
        other.op = kind()
    text = ast.unparse(other)
    yield "swapped_operator", text, _replace(source, f"({text})", node)


def _swallowed_exceptions(
    node: ast.FunctionDef | ast.AsyncFunctionDef, source: bytes
) -> Iterator[tuple[str, str, bytes]]:
    """Wrap the whole body in a `try` that swallows exceptions, if the function raises any."""
    body = node.body[1:] if _has_docstring(node) else node.body
    if not body or not any(isinstance(node_part, ast.Raise) for node_part in ast.walk(node)):
        return
    if any(
        isinstance(node_part, ast.Constant) and node_part.lineno != node_part.end_lineno
        for part in body
        for node_part in ast.walk(part)
    ):
        return  # Indenting the lines of a multi-line string would change it.
    first, last = body[0].lineno - 1, body[-1].end_lineno or body[-1].lineno
    if first < node.lineno:
        return
    lines = source.split(b"\n")
    indent = lines[first][: body[0].col_offset]
    inner = [b"    " + line if line.strip() else line for line in lines[first:last]]
    wrapped = [indent + b"try:", *inner, indent + b"except Exception:", indent + b"    return None"]
    yield (
        "swallowed_exception",
        f"{node.name} swallows its exceptions",
        b"\n".join([*lines[:first], *wrapped, *lines[last:]]),
    )


def _has_docstring(node: ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    first = node.body[0] if node.body else None
    return isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant) and isinstance(first.value.value, str)


def _replace(source: bytes, text: str, first: ast.expr | ast.stmt, last: ast.expr | ast.stmt | None = None) -> bytes:
    """Replace the source from the start of the first node to the end of the last one. Offsets are in bytes."""
    last = last or first
    lines = source.split(b"\n")
    start, end = first.lineno - 1, (last.end_lineno or last.lineno) - 1
    changed = lines[start][: first.col_offset] + text.encode() + lines[end][last.end_col_offset or 0 :]
    return b"\n".join([*lines[:start], changed, *lines[end + 1 :]])


# --- other languages --------------------------------------------------------------------------------------------------

_COMMENT = re.compile(rb"\s*(?:#|//|/\*|\*|--|$)")
_NUMBER = re.compile(rb"(?<![\w.])\d{1,9}(?![\w.])")
_FLIPPED = {
    rb"<=": rb"<", rb">=": rb">", rb"==": rb"!=", rb"!=": rb"==", rb"&&": rb"||", rb"||": rb"&&",
}  # fmt: skip
_FLIP = re.compile(b"|".join(map(re.escape, _FLIPPED)))
_IF = re.compile(rb"\bif\s*\((.+)\)(\s*\{?\s*)$")
_RETURN = re.compile(rb"(\breturn\s+)([^;]+)(;?)")
_NAMES = {b"<=": "off_by_one", b">=": "off_by_one", b"&&": "swapped_operator", b"||": "swapped_operator"}


def text_changes(lines: Sequence[bytes]) -> Iterator[Change]:
    """Yield whole files with one line changed. `lines` keep their newlines."""
    for index, line in enumerate(lines):
        if _COMMENT.match(line):
            continue
        for operator, other in _line_changes(line):
            what = other.decode("utf-8", "replace").strip()[:80] or "(left out)"
            yield Change(operator, index + 1, what, b"".join([*lines[:index], other, *lines[index + 1 :]]))


def _line_changes(line: bytes) -> Iterator[tuple[str, bytes]]:
    body = line.rstrip(b"\r\n")
    end = line[len(body) :]
    for match in _NUMBER.finditer(body):
        for other in (int(match[0]) + 1, int(match[0]) - 1):
            yield "off_by_one", body[: match.start()] + str(other).encode() + body[match.end() :] + end
    for match in _FLIP.finditer(body):
        operator = _NAMES.get(match[0], "negated_condition")
        yield operator, body[: match.start()] + _FLIPPED[match[0]] + body[match.end() :] + end
    if condition := _IF.search(body):
        yield (
            "negated_condition",
            body[: condition.start(1)] + b"!(" + condition[1] + b")" + body[condition.end(1) :] + end,
        )
    if value := _RETURN.search(body):
        yield "constant_return", body[: value.start(2)] + b"0" + body[value.end(2) :] + end
    yield "deleted_statement", b""
