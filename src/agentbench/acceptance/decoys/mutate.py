"""Making the expectation of a test false, in its source. Pure.

Only the last statements of a test are altered, so that nothing which clears up after it is left out, and only in a way that
no right solution can satisfy: what equals a value does not equal another, and what is true is not false.
"""

from __future__ import annotations

import ast
import dataclasses
import random
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass

from agentbench.acceptance.decoys.alternative_values import other_literals, others_of
from agentbench.core import python_syntax as syntax

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
_VALUES = frozenset(
    {"approx", "Fraction", "Decimal", "complex", "date", "datetime", "time", "timedelta", "Path", "PurePath", "UUID"}
    | {"set", "frozenset", "tuple", "list", "dict", "OrderedDict", "deque", "str", "bytes", "int", "float"}
)
"""Calls that say a value. Others may be of what is tested, which may be wrong in the same way for both."""
_RAISED_BY_NOBODY = ("BufferError", "EOFError", "ReferenceError")
"""In place of an awaited exception. Not another that is often raised: what is raised may well be of two kinds."""
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
    """Bytes of a source and what may take their place, one or another."""

    line: int
    start: int
    end: int
    texts: tuple[bytes, ...]
    was: bytes
    rank: int
    """How telling it is: a changed value is, a turned condition less so (an object equal to everything meets `!=` as it should)."""
    told: str = ""
    """What people are told that it became, where the text does not say it."""

    def what(self, number: int) -> str:
        was, became = (part.decode("utf-8", "replace").strip()[:80] for part in (self.was, self.texts[number]))
        return f"{was} became {self.told or became}"


def altered(source: bytes, chosen: Iterable[tuple[Alteration, int]]) -> bytes:
    """The source with every one of the alterations, which do not overlap; of each the text of that number."""
    for one, number in sorted(chosen, key=lambda pair: -pair[0].start):
        source = source[: one.start] + one.texts[number] + source[one.end :]
    return source


def alterations(source: bytes, wanted: Collection[Place], seed: str) -> Mapping[Place, Alteration]:
    """One for each test that can be given a false expectation; empty for what is no Python or not UTF-8.

    The same seed gives the same values: who sees many runs of a test sees the true value no more often than each false one.
    """
    if len(source) > MAX_SOURCE or source.startswith(b"\xef\xbb\xbf"):
        return {}
    try:
        text = source.decode()
        tree = syntax.parse(text)
    except (ValueError, SyntaxError, RecursionError, MemoryError):
        return {}
    found: dict[Place, Alteration] = {}
    for place, function in _tests(tree, ()):
        if place in wanted:
            dice = random.Random("\0".join((seed, *place)))  # noqa: S311 - the seed is what nobody knows
            chosen = _chosen(function, _Spots(source, dice, function))
            found.pop(place, None)  # of two tests with one name the last counts
            if chosen is not None:
                found[place] = chosen
    if all(_parses(altered(source, everything)) for everything in _each_text(found.values())):
        return found
    return {
        place: one for place, one in found.items() if all(_parses(altered(source, text)) for text in _each_text([one]))
    }


def _each_text(found: Collection[Alteration]) -> Iterator[list[tuple[Alteration, int]]]:
    for number in range(max((len(one.texts) for one in found), default=0)):
        yield [(one, min(number, len(one.texts) - 1)) for one in found]


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
    """Where nodes of a test are, in bytes; and the dice for what is put there."""

    def __init__(self, source: bytes, dice: random.Random, test: TestDef) -> None:
        self.source = source
        self.dice = dice
        self.test = test
        self._starts = [0]
        for line in source.splitlines(keepends=True):
            self._starts.append(self._starts[-1] + len(line))

    def start(self, node: ast.expr) -> int:
        return self._starts[node.lineno - 1] + node.col_offset

    def end(self, node: ast.expr) -> int:
        return self._starts[(node.end_lineno or node.lineno) - 1] + (node.end_col_offset or 0)

    def replace(self, node: ast.expr, rank: int, *texts: str) -> Alteration:
        return self.made(node.lineno, self.start(node), self.end(node), rank, *(text.encode() for text in texts))

    def around(self, node: ast.expr, before: str, after: str, rank: int) -> Alteration:
        own = self.source[self.start(node) : self.end(node)]
        return self.replace(node, rank, f"{before}{own.decode()}{after}")

    def made(self, line: int, start: int, end: int, rank: int, *texts: bytes) -> Alteration:
        return Alteration(line, start, end, texts, self.source[start:end], rank)


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
        return spot.replace(right, _TURNED, repr(not right.value))
    if isinstance(test.ops[0], ast.In) and isinstance(left, ast.Constant):
        return _other_value(
            left, spot
        )  # rather than turned round: what has everything in it meets `not in` as it should
    between = spot.source[spot.end(left) : spot.start(right)]
    turned = _OPERATORS.get(b" ".join(between.split()))
    if turned is None:
        return None
    return spot.made(left.lineno, spot.end(left), spot.start(right), _TURNED, b" %s " % turned)


def _turned(test: ast.expr, spot: _Spots) -> Alteration:
    """As people would write it, wherever that can be done."""
    if isinstance(test, ast.Name | ast.Call | ast.Attribute | ast.Subscript):
        return spot.around(test, "not ", "", _TURNED)
    if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        after = spot.start(test) + len(b"not")  # a bracket may follow
        return spot.made(test.lineno, spot.start(test), after + (spot.source[after : after + 1] == b" "), _TURNED, b"")
    return spot.around(test, "not (", ")", _TURNED)


def _of_equality(expected: ast.expr, actual: ast.expr, spot: _Spots) -> Alteration:
    """Another value: one that is written, if there is one to see; else one that comes from what is expected when the test runs."""
    for side in (expected, actual, _assigned(expected, spot.test), _assigned(actual, spot.test)):
        made = None if side is None else _other_value(side, spot)
        if made is not None:
            return made
    known = _given(spot.test)
    side = min(expected, actual, key=lambda side: 0 if _names(side) <= known else 1 + _calls(side))
    texts = others_of(_bytes(side, spot).decode(), spot.dice)
    return dataclasses.replace(spot.replace(side, _TELLING, *texts), told="another value of its kind")


def _given(test: TestDef) -> set[str]:
    """Names that a test is given: its parameters, and what it goes through in a loop."""
    loops = [one.target for one in ast.walk(test) if isinstance(one, ast.For | ast.comprehension)]
    return {one.arg for one in ast.walk(test.args) if isinstance(one, ast.arg)} | {
        name for target in loops for name in _names(target)
    }


def _calls(node: ast.expr) -> bool:
    return any(isinstance(one, ast.Call | ast.Await) for one in ast.walk(node))


def _assigned(name: ast.expr, test: TestDef) -> ast.expr | None:
    """What a name that is used for nothing else was given before, once, in the body of the test itself."""
    if not isinstance(name, ast.Name):
        return None
    named = [one for one in ast.walk(test) if isinstance(one, ast.Name) and one.id == name.id]
    given = [
        one.value
        for one in test.body
        if isinstance(one, ast.Assign) and len(one.targets) == 1 and one.targets[0] in named
    ]
    return given[0] if len(named) == 2 and len(given) == 1 else None


def _of_call(call: ast.Call, name: str, spot: _Spots) -> Alteration | None:
    if name in _EQUALITIES:
        if len(call.args) < 2 or any(isinstance(one, ast.Starred) for one in call.args[:2]):
            return None
        return _of_equality(call.args[1], call.args[0], spot)
    end = spot.end(call.func)
    return spot.made(call.lineno, end - len(name), end, _TURNED, _OPPOSITE[name].encode())


def _of_raises(context: ast.expr, spot: _Spots) -> Alteration | None:
    if not isinstance(context, ast.Call) or not context.args or not _names(context.func) & _RAISING:
        return None
    awaited = context.args[0]
    said = next((one.value for one in context.keywords if one.arg == "match"), None)
    made = _other_value(said, spot) if isinstance(said, ast.Constant) and b"\\" not in _bytes(said, spot) else None
    if made is not None:
        return made
    others = [name for name in _RAISED_BY_NOBODY if name not in _names(awaited)]
    spot.dice.shuffle(others)
    return spot.replace(awaited, _TURNED, *others)


def _other_value(node: ast.expr, spot: _Spots) -> Alteration | None:
    match node:
        case ast.Constant(value=value):
            written = spot.source[spot.start(node) : spot.end(node)].decode()
            texts = other_literals(value, written, spot.dice)
            return spot.replace(node, _TELLING, *texts) if texts else None
        case ast.UnaryOp(op=ast.USub(), operand=ast.Constant(value=int() | float() as value)):
            texts = other_literals(-value, "", spot.dice)  # as a whole: nobody writes two signs
            return spot.replace(node, _TELLING, *texts) if texts else None
        case ast.List(elts=parts) | ast.Tuple(elts=parts) | ast.Set(elts=parts) | ast.Dict(values=parts):
            return _any_other(parts, spot)
        case ast.Call(func=function, args=parts) if _names(function) & _VALUES:
            return _any_other(parts, spot)
        case _:
            return None


def _any_other(parts: list[ast.expr], spot: _Spots) -> Alteration | None:
    """Of any of them: who knew which could give that one honestly, and anything for the others."""
    made = [other for part in parts if (other := _other_value(part, spot)) is not None]
    return spot.dice.choice(made) if made else None


def _bytes(node: ast.expr, spot: _Spots) -> bytes:
    return spot.source[spot.start(node) : spot.end(node)]
