"""Making the expectation of a test false, in its source. Pure.

Only the last statements of a test are altered, so that nothing which clears up after it is left out, and only in a way that
no right solution can satisfy: what equals a value does not equal another, and what is true is not false.
"""

from __future__ import annotations

import ast
import random
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass

from agentbench.core import syntax

Place = tuple[str, ...]
"""Names of the classes around a test and its own."""
MAX_SOURCE = 1024 * 1024
_UNSUITABLE = frozenset({"given", "flaky", "xfail", "retry", "repeat"})
"""Decorators of tests that may fail, or that run them many times."""
_OPAQUE = frozenset(
    {"raises", "warns", "suppress", "assertRaises", "assertRaisesRegex", "assertWarns", "deprecated_call"}
)
"""Contexts that may swallow or await an exception: an assertion in there says something else."""
_RAISING = frozenset({"raises", "assertRaises"})
_TELLING, _TURNED = 2, 1
_DICE = random.SystemRandom()
_TRIES = 20
_OPERATORS = {
    b"!=": b"==",
    b"in": b"not in",
    b"not in": b"in",
    b"is": b"is not",
    b"is not": b"is",
    b"<": b">=",
    b">=": b"<",
    b">": b"<=",
    b"<=": b">",
}
_BUILTIN_ERRORS = {
    "ValueError": "TypeError",
    "TypeError": "ValueError",
    "KeyError": "TypeError",
    "IndexError": "TypeError",
}
_RAISED_BY_NOBODY = "BufferError"
"""In place of an exception of the project's own: what that is derived from is up to who writes it."""
_OPPOSITE = {
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
_EQUALITIES = frozenset(
    {"assertEqual", "assertEquals", "assertListEqual", "assertDictEqual", "assertTupleEqual", "assertSetEqual"}
    | {"assertSequenceEqual", "assertMultiLineEqual", "assertCountEqual"}
)


@dataclass(frozen=True, slots=True)
class Alteration:
    """Bytes of a source and what takes their place."""

    line: int
    start: int
    end: int
    text: bytes
    was: bytes
    rank: int
    """How telling it is: a changed value is, a turned condition less so (an object equal to everything meets `!=` as it should)."""

    @property
    def what(self) -> str:
        return " became ".join(part.decode("utf-8", "replace")[:80] for part in (self.was, self.text))


def altered(source: bytes, chosen: Iterable[Alteration]) -> bytes:
    """The source with every one of the alterations, which do not overlap."""
    for one in sorted(chosen, key=lambda one: -one.start):
        source = source[: one.start] + one.text + source[one.end :]
    return source


def alterations(source: bytes, wanted: Collection[Place]) -> Mapping[Place, Alteration]:
    """One for each test that can be given a false expectation; empty for what is no Python or not UTF-8."""
    if len(source) > MAX_SOURCE or source.startswith(b"\xef\xbb\xbf"):
        return {}
    try:
        text = source.decode()
        tree = syntax.parse(text)
    except (ValueError, SyntaxError, RecursionError, MemoryError):
        return {}
    spot = _Spots(source)
    found: dict[Place, Alteration] = {}
    for place, function in _tests(tree, ()):
        if place in wanted:
            chosen = _chosen(function, spot)
            found.pop(place, None)  # of two tests with one name the last counts
            if chosen is not None:
                found[place] = chosen
    return found if _parses(altered(source, found.values())) else {}


def _parses(source: bytes) -> bool:
    try:
        syntax.parse(source)
    except (ValueError, SyntaxError, RecursionError, MemoryError):
        return False
    return True


TestDef = ast.FunctionDef | ast.AsyncFunctionDef


def _tests(node: ast.Module | ast.ClassDef, above: Place) -> Iterable[tuple[Place, TestDef]]:
    for one in node.body:
        if isinstance(one, TestDef):
            yield (*above, one.name), one
        elif isinstance(one, ast.ClassDef):
            yield from _tests(one, (*above, one.name))


class _Spots:
    """Where nodes are, in bytes."""

    def __init__(self, source: bytes) -> None:
        self.source = source
        self._starts = [0]
        for line in source.splitlines(keepends=True):
            self._starts.append(self._starts[-1] + len(line))

    def start(self, node: ast.expr) -> int:
        return self._starts[node.lineno - 1] + node.col_offset

    def end(self, node: ast.expr) -> int:
        return self._starts[(node.end_lineno or node.lineno) - 1] + (node.end_col_offset or 0)

    def replace(self, node: ast.expr, text: str, rank: int) -> Alteration:
        return self.made(node.lineno, self.start(node), self.end(node), text.encode(), rank)

    def around(self, node: ast.expr, before: str, after: str, rank: int) -> Alteration:
        own = self.source[self.start(node) : self.end(node)]
        return self.replace(node, f"{before}{own.decode()}{after}", rank)

    def made(self, line: int, start: int, end: int, text: bytes, rank: int) -> Alteration:
        return Alteration(line, start, end, text, self.source[start:end], rank)


# --- which statement --------------------------------------------------------------------------------------------------


def _chosen(function: TestDef, spot: _Spots) -> Alteration | None:
    words = {name for one in function.decorator_list for name in _names(one)}
    if words & _UNSUITABLE or any(isinstance(one, ast.Return | ast.Yield | ast.YieldFrom) for one in _own(function)):
        return None
    found = [made for one in _last(function.body) if (made := _of_statement(one, spot)) is not None]
    return max(found, key=lambda one: (one.rank, one.start), default=None)


def _own(function: TestDef) -> Iterator[ast.AST]:
    """What a function does itself, without the functions that it makes."""
    waiting: list[ast.AST] = list(function.body)
    while waiting:
        one = waiting.pop()
        yield one
        if not isinstance(one, TestDef | ast.Lambda | ast.ClassDef):
            waiting += ast.iter_child_nodes(one)


def _last(body: list[ast.stmt]) -> list[ast.stmt]:
    """The assertions at the end, with nothing but assertions behind them."""
    found: list[ast.stmt] = []
    for one in reversed(body):
        if not _asserts(one):
            break
        found.append(one)
    if found or not body:
        return found
    last = body[-1]
    if isinstance(last, ast.With | ast.AsyncWith):
        contexts = {name for item in last.items for name in _names(item.context_expr)}
        return [last] if contexts & _RAISING else [] if contexts & _OPAQUE else _last(last.body)
    if isinstance(last, ast.For) and not last.orelse and isinstance(last.iter, ast.List | ast.Tuple) and last.iter.elts:
        return _last(last.body)
    return []


def _asserts(one: ast.stmt) -> bool:
    if isinstance(one, ast.Assert):
        return True
    return isinstance(one, ast.Expr) and _unittest(one.value) is not None


def _unittest(node: ast.expr) -> tuple[ast.Call, str] | None:
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and isinstance(node.func.value, ast.Name):
        name = node.func.attr
        if node.func.value.id == "self" and (name in _OPPOSITE or name in _EQUALITIES):
            return node, name
    return None


def _names(node: ast.expr) -> set[str]:
    """Every name and attribute in an expression."""
    found = {one.id for one in ast.walk(node) if isinstance(one, ast.Name)}
    return found | {one.attr for one in ast.walk(node) if isinstance(one, ast.Attribute)}


# --- how --------------------------------------------------------------------------------------------------------------


def _of_statement(one: ast.stmt, spot: _Spots) -> Alteration | None:
    if isinstance(one, ast.Assert):
        return _of_condition(one.test, spot)
    if isinstance(one, ast.Expr) and (call := _unittest(one.value)) is not None:
        return _of_call(*call, spot)
    if isinstance(one, ast.With | ast.AsyncWith) and len(one.items) == 1:
        return _of_raises(one.items[0].context_expr, spot)
    return None


def _of_condition(test: ast.expr, spot: _Spots) -> Alteration | None:
    if isinstance(test, ast.Constant):
        return None
    made = _of_comparison(test, spot) if isinstance(test, ast.Compare) and len(test.ops) == 1 else None
    return made or _turned(test, spot)


def _of_comparison(test: ast.Compare, spot: _Spots) -> Alteration | None:
    left, right = test.left, test.comparators[0]
    if isinstance(test.ops[0], ast.Eq):
        return _of_equality(right, left, spot)
    if isinstance(test.ops[0], ast.Is) and isinstance(right, ast.Constant) and isinstance(right.value, bool):
        return spot.replace(right, repr(not right.value), _TURNED)
    between = spot.source[spot.end(left) : spot.start(right)]
    turned = _OPERATORS.get(b" ".join(between.split()))
    if turned is None:
        return None
    return spot.made(left.lineno, spot.end(left), spot.start(right), b" %s " % turned, _TURNED)


def _turned(test: ast.expr, spot: _Spots) -> Alteration:
    """As people would write it, wherever that can be done."""
    if isinstance(test, ast.Name | ast.Call | ast.Attribute | ast.Subscript):
        return spot.around(test, "not ", "", _TURNED)
    if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        return spot.made(test.lineno, spot.start(test), spot.start(test.operand), b"", _TURNED)
    return spot.around(test, "not (", ")", _TURNED)


def _of_equality(expected: ast.expr, actual: ast.expr, spot: _Spots) -> Alteration:
    """Another value if there is one to see; else what is expected as part of something else, which nothing equals that equals it."""
    for side in (expected, actual):
        made = _other_value(side, spot)
        if made is not None:
            return made
    return spot.around(expected, "(", ",)", _TELLING)


def _of_call(call: ast.Call, name: str, spot: _Spots) -> Alteration | None:
    if name in _EQUALITIES:
        if len(call.args) < 2 or any(isinstance(one, ast.Starred) for one in call.args[:2]):
            return None
        return _of_equality(call.args[1], call.args[0], spot)
    end = spot.end(call.func)
    return spot.made(call.lineno, end - len(name), end, _OPPOSITE[name].encode(), _TURNED)


def _of_raises(context: ast.expr, spot: _Spots) -> Alteration | None:
    if not isinstance(context, ast.Call) or not context.args or not _names(context.func) & _RAISING:
        return None
    awaited = context.args[0]
    other = _BUILTIN_ERRORS.get(awaited.id, _RAISED_BY_NOBODY) if isinstance(awaited, ast.Name) else _RAISED_BY_NOBODY
    return spot.replace(awaited, other, _TURNED)


def _other_value(node: ast.expr, spot: _Spots) -> Alteration | None:
    match node:
        case ast.Constant(value=value):
            text = _other_literal(value, spot.source[spot.start(node) : spot.end(node)].decode())
            return None if text is None else spot.replace(node, text, _TELLING)
        case ast.UnaryOp(op=ast.USub(), operand=ast.Constant() as inner):
            return _other_value(inner, spot)
        case ast.List(elts=parts) | ast.Tuple(elts=parts):
            return _first_other(parts, spot)
        case ast.Dict(values=parts):
            return _first_other(parts, spot)
        case _:
            return None


def _first_other(parts: list[ast.expr], spot: _Spots) -> Alteration | None:
    return next((made for part in parts if (made := _other_value(part, spot)) is not None), None)


_LARGE = 1e6
_KINDS = ("0123456789", "abcdefghijklmnopqrstuvwxyz", "ABCDEFGHIJKLMNOPQRSTUVWXYZ")


def _other_literal(value: object, written: str) -> str | None:
    """Another value of the same kind, written the same way. Which of two is the first one cannot be seen."""
    if isinstance(value, bool):
        return repr(not value)
    if isinstance(value, int):
        return repr(value + _DICE.choice((-3, -2, -1, 1, 2, 3)))
    if isinstance(value, float):
        return _other_number(value)
    return _other_text(value, written) if isinstance(value, str | bytes) else None


def _other_number(value: float) -> str | None:
    """Near where nearness could be a trick, and far from where rounding could make them one."""
    if value != value or value in (float("inf"), float("-inf")):  # noqa: PLR0124 - not a number
        return None
    return repr(value + _DICE.choice((-2, -1, 1, 2)) if abs(value) < _LARGE else value / 2)


def _expression(text: str) -> ast.expr:
    """
    Raises:
        SyntaxError, ValueError: it is none.
    """
    found = [one.value for one in syntax.parse(f"({text})").body if isinstance(one, ast.Expr)]
    if len(found) != 1:
        raise ValueError(text)
    return found[0]


def _other_text(value: str | bytes, written: str) -> str:
    """One letter or digit is another one, if that can be done in the text as it is written."""
    places = [at for at, letter in enumerate(written) if any(letter in kind for kind in _KINDS)]
    _DICE.shuffle(places)
    for at in places[:_TRIES]:
        kind = next(kind for kind in _KINDS if written[at] in kind)
        other = written[:at] + _DICE.choice(kind.replace(written[at], "")) + written[at + 1 :]
        try:
            read = ast.literal_eval(ast.Expression(_expression(other)))
        except (ValueError, SyntaxError):
            continue
        if type(read) is type(value) and len(read) == len(value) and read != value:
            return other
    return repr(value + (b"x" if isinstance(value, bytes) else "x"))  # type: ignore[operator]
