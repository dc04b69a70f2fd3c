"""Finds the literals that an expected value consists of. Pure."""

from __future__ import annotations

import ast
import datetime as dt
import decimal
import fractions
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from agentbench.acceptance.decoys.source_file import names_in

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
        names = set() if self.call is None else names_in(self.call.func) & _CONSTRUCTORS.keys()
        if not names or self.call is None:
            return True
        try:
            arguments = [ast.literal_eval(text if part is self.node else part) for part in self.call.args]
            other = _CONSTRUCTORS[names.pop()](*arguments)
        except (ValueError, TypeError, ArithmeticError, SyntaxError):
            return False
        return other is not None


def literal_parts(node: ast.expr, call: ast.Call | None = None) -> Iterator[LiteralPart]:
    """Yield the literals of a value that make another value if they change."""
    match node:
        case ast.Constant():
            yield LiteralPart(node, call)
        case ast.UnaryOp(op=ast.USub(), operand=ast.Constant(value=int() | float() as number) as operand) if number:
            yield LiteralPart(operand, call)
        case ast.List(elts=parts) | ast.Tuple(elts=parts) | ast.Set(elts=parts) | ast.Dict(values=parts):
            for part in parts:
                yield from literal_parts(part)
        case ast.BinOp(left=left, op=ast.Add() | ast.Sub(), right=right):
            yield from literal_parts(left)
            yield from literal_parts(right)
        case ast.Call(func=ast.Attribute(value=ast.Constant() as text, attr=method)) if method in _TEXT_METHODS:
            yield from literal_parts(text)
        case ast.Call(func=function) if names_in(function) & VALUE_CALLS or _is_class(function):
            for part in (*node.args, *(keyword.value for keyword in node.keywords if keyword.arg not in _OPTIONS)):
                yield from literal_parts(part, node)


_OPTIONS = frozenset({"rel", "abs", "nan_ok", "tzinfo", "fold"})
"""Keyword arguments of value calls that are not part of the value."""


def _is_class(function: ast.expr) -> bool:
    """Return whether a call creates an object of a class, by its name."""
    name = (
        function.attr if isinstance(function, ast.Attribute) else function.id if isinstance(function, ast.Name) else ""
    )
    return name[:1].isupper() and not name.isupper()
