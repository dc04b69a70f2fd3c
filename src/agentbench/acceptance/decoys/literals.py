"""Finds the literals that an expected value consists of. Pure."""

from __future__ import annotations

import ast
import datetime as dt
import decimal
import fractions
import uuid
from collections.abc import Callable, Iterator

from agentbench.acceptance.decoys.source_file import names_in
from agentbench.core.dataclass import dataclass

VALUE_CALLS = frozenset(
    {"approx", "Fraction", "Decimal", "complex", "date", "datetime", "time", "timedelta", "Path", "PurePath", "UUID"}
    | {"set", "frozenset", "tuple", "list", "dict", "OrderedDict", "deque", "str", "bytes", "int", "float", "bytearray"}
    | {"dedent", "cleandoc"}
)
"""Calls that construct a value. Other functions may be product code, which can be wrong alike for both versions."""
_TEXT_METHODS = frozenset(
    {"encode", "decode", "strip", "lstrip", "rstrip", "split", "splitlines", "join", "lower", "upper"}
)
_CONSTRUCTORS: dict[str, Callable[..., object]] = {
    "Fraction": fractions.Fraction,
    "Decimal": decimal.Decimal,
    "date": dt.date,
    "datetime": dt.datetime,
    "time": dt.time,
    "timedelta": dt.timedelta,
    "UUID": uuid.UUID,
    "int": int,
    "float": float,
}
"""Constructors that refuse some arguments: a decoy must not fail before it compares."""


def unwrapped(side: ast.expr) -> ast.expr:
    """Return the name in `approx(name)`, `list(name)` and the like; any other expression as it is.

    With a tolerance, one result could be near two values of the name.
    """
    match side:
        case ast.Call(func=function, args=[ast.Name() as name, *others]) if names_in(function) & VALUE_CALLS:
            has_tolerance = "approx" in names_in(function) and bool(others or side.keywords)
            return side if has_tolerance else name
    return side


@dataclass(frozen=True, slots=True)
class LiteralPart:
    """A literal in a value, and the call whose argument it is."""

    node: ast.Constant
    call: ast.Call | None = None

    @property
    def value(self) -> object:
        return self.node.value

    def accepts(self, text: str) -> bool:
        """Return whether the value can still be constructed with another literal."""
        if self.call is None:
            return True
        if "approx" in names_in(self.call.func):
            return self._is_out_of_tolerance(self.call, text)
        names = names_in(self.call.func) & _CONSTRUCTORS.keys()
        if not names:
            return True
        try:
            arguments = [ast.literal_eval(text if part is self.node else part) for part in self.call.args]
            other = _CONSTRUCTORS[names.pop()](*arguments)
        except (ValueError, TypeError, ArithmeticError, SyntaxError):
            return False
        return other is not None

    def _is_out_of_tolerance(self, call: ast.Call, text: str) -> bool:
        """Return whether no number is within the tolerance of both values: that of a solution may lie in between."""
        given = dict(zip(("rel", "abs"), call.args[1:], strict=False))
        given |= {keyword.arg: keyword.value for keyword in call.keywords if keyword.arg in {"rel", "abs"}}
        try:
            value, other = (abs(ast.literal_eval(part)) for part in (self.node, text))
            relative, absolute = (float(ast.literal_eval(given.get(name, _ZERO))) for name in ("rel", "abs"))
        except (ValueError, TypeError, SyntaxError, ArithmeticError):
            return not given
        return bool(abs(value - other) > 2 * max(absolute, relative * max(value, other)))


_ZERO = ast.Constant(0)


def literal_parts(
    node: ast.expr, new_names: frozenset[str] = frozenset(), call: ast.Call | None = None
) -> Iterator[LiteralPart]:
    """Yield the literals of a value that make another value if they change.

    Objects of classes with `new_names` may be equal although their arguments differ.
    """
    match node:
        case ast.Constant():
            yield LiteralPart(node, call)
        case ast.UnaryOp(op=ast.USub(), operand=ast.Constant(value=int() | float() as number) as operand) if number:
            yield LiteralPart(operand, call)
        case ast.List(elts=parts) | ast.Tuple(elts=parts) | ast.Set(elts=parts) | ast.Dict(values=parts):
            for part in parts:
                yield from literal_parts(part, new_names, call)
        case ast.BinOp(left=left, op=ast.Add() | ast.Sub(), right=right):
            yield from literal_parts(left, new_names)
            yield from literal_parts(right, new_names)
        case ast.Call(func=ast.Attribute(value=ast.Constant() as text, attr=method)) if method in _TEXT_METHODS:
            yield from literal_parts(text)
        case ast.Call(func=function) if names_in(function) & VALUE_CALLS or _is_class(function, new_names):
            values = node.args[:1] if "approx" in names_in(function) else node.args
            for part in (*values, *(keyword.value for keyword in node.keywords if keyword.arg not in _OPTIONS)):
                yield from literal_parts(part, new_names, node)


_OPTIONS = frozenset({"rel", "abs", "nan_ok", "tzinfo", "fold"})
"""Keyword arguments of value calls that are not part of the value."""


def _is_class(function: ast.expr, new_names: frozenset[str]) -> bool:
    """Return whether a call creates an object of a class that is not new, by its name."""
    name = (
        function.attr if isinstance(function, ast.Attribute) else function.id if isinstance(function, ast.Name) else ""
    )
    return name[:1].isupper() and not name.isupper() and name not in new_names
