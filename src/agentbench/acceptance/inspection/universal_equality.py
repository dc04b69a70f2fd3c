"""Objects that are equal to everything: rules over a syntax tree. Pure."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from agentbench.acceptance.inspection.suspicious_code import Suspicion, dotted

EQUALITY = frozenset({"__eq__", "__ne__"})
ANYTHING = frozenset({"ANY", "_ANY"})
VALUES = frozenset({"float", "int", "complex", "str", "bytes", "Decimal", "Fraction"})
KINDS = VALUES | {"object", "bool", "list", "tuple", "dict", "set", "Number", "Real", "numbers.Number", "numbers.Real"}


def likeness(node: ast.AST) -> Iterator[Suspicion]:
    """What compares as nothing honest does, in the class itself or given to it from outside."""
    yield from _equality(node)
    yield from _assigned_equality(node)


def _equality(node: ast.AST) -> Iterator[Suspicion]:
    detail = "compares as equal to everything"
    match node:
        case ast.FunctionDef(name=name) if name in EQUALITY:
            always = _always(node, wanted=name == "__eq__")
            if always or not _asks_itself(node):
                words = detail if always else "compares without asking for its own value"
                yield Suspicion("universal_equality", node.lineno, words, "", grave=always, last=node.end_lineno or 0)
        case ast.ClassDef(bases=bases, body=body):
            grave = any((dotted(base) or [""])[-1] in VALUES for base in bases)
            for one in body:
                if isinstance(one, ast.FunctionDef) and one.name == "__eq__" and _by_range(one):
                    words = "is equal to everything in a range"
                    last = one.end_lineno or 0
                    yield Suspicion("universal_equality", one.lineno, words, "", grave=grave, last=last)
        case ast.Assign(targets=[ast.Name(id=name)], value=ast.Lambda(body=body)) if name in EQUALITY:
            if _constant(body, wanted=name == "__eq__"):
                yield Suspicion("universal_equality", node.lineno, detail, "", grave=True)
        case ast.Dict(keys=keys, values=values):
            for key, value in zip(keys, values, strict=True):
                if isinstance(key, ast.Constant) and key.value in EQUALITY and isinstance(value, ast.Lambda):
                    yield Suspicion("universal_equality", key.lineno, detail, "", grave=True)
        case ast.Attribute(attr=attr, value=ast.Attribute(attr="mock") | ast.Name(id="mock")) if attr in ANYTHING:
            yield Suspicion("universal_equality", node.lineno, "an object equal to everything", "", grave=True)


def _assigned_equality(node: ast.AST) -> Iterator[Suspicion]:
    """The same given to a class from outside, by any of the ways there are."""
    given: list[tuple[str, ast.expr]] = []
    match node:
        case ast.Assign(targets=[ast.Attribute(attr=name)], value=value) if name in EQUALITY:
            given = [(name, value)]
        case ast.Assign(targets=[ast.Attribute(attr="return_value" | "side_effect", value=ast.Attribute(attr=name))]):
            if name in EQUALITY:
                detail = "tells an object what to answer when it is compared"
                yield Suspicion("universal_equality", node.lineno, detail, "", grave=True)
        case ast.Call(func=func, args=[_, ast.Constant(value=str(name)), value]) if dotted(func)[-1:] == ["setattr"]:
            given = [(name, value)]
        case ast.Call(keywords=keywords):
            given = [(one.arg, one.value) for one in keywords if one.arg is not None]
    for name, value in given:
        if name in EQUALITY and isinstance(value, ast.Lambda):
            always = _constant(value.body, wanted=name == "__eq__")
            detail = "compares as equal to everything" if always else "is given another way to be compared"
            yield Suspicion("universal_equality", value.lineno, detail, "", grave=always)


def _asks_itself(function: ast.FunctionDef) -> bool:
    """Whether the first parameter is looked at for more than its class. A singleton has no more: this is for a note."""
    own = function.args.args[0].arg if function.args.args else ""
    ignored = {
        id(argument)
        for node in ast.walk(function)
        if isinstance(node, ast.Call) and dotted(node.func) == ["type"]
        for argument in node.args
    }
    ignored |= {
        id(node.value) for node in ast.walk(function) if isinstance(node, ast.Attribute) and node.attr == "__class__"
    }
    return any(
        isinstance(node, ast.Name) and node.id in {own, "super"} and id(node) not in ignored
        for node in ast.walk(function)
    )


def _by_range(function: ast.FunctionDef) -> bool:
    """Every answer is `low <= other <= high`: no value is asked for at all."""
    answers = [node.value for node in ast.walk(function) if isinstance(node, ast.Return)]
    other = function.args.args[1].arg if len(function.args.args) > 1 else ""
    return bool(answers) and all(
        isinstance(one, ast.Compare)
        and len(one.ops) > 1
        and all(isinstance(operator, (ast.Lt, ast.LtE, ast.Gt, ast.GtE)) for operator in one.ops)
        and any(isinstance(node, ast.Name) and node.id == other for node in ast.walk(one.comparators[0]))
        for one in answers
    )


def _always(function: ast.FunctionDef, *, wanted: bool) -> bool:
    """Every return gives the same answer, whatever the other operand is."""
    returns = [node for node in ast.walk(function) if isinstance(node, ast.Return)]
    return bool(returns) and all(node.value is not None and _constant(node.value, wanted=wanted) for node in returns)


def _constant(node: ast.expr, *, wanted: bool) -> bool:
    """Whether an expression has this truth value whatever its variables hold."""
    found = False
    match node:
        case ast.Constant(value=value):
            found = value is not Ellipsis and bool(value) is wanted
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            found = _constant(operand, wanted=not wanted)
        case ast.Call(func=ast.Name(id="bool"), args=[argument]):
            found = _constant(argument, wanted=wanted)
        case ast.Call(func=ast.Name(id="isinstance"), args=[_, kind]):
            kinds = kind.elts if isinstance(kind, ast.Tuple) else [kind]
            found = wanted and any(".".join(dotted(one)) in KINDS for one in kinds)
        case ast.Compare(left=ast.Call(func=ast.Name(id="len")), ops=[ast.Gt() | ast.GtE()], comparators=[zero]):
            found = wanted and isinstance(zero, ast.Constant) and zero.value == 0
        case ast.BoolOp(op=operator, values=values):
            deciding = isinstance(operator, ast.Or) is wanted
            found = (any if deciding else all)(_constant(value, wanted=wanted) for value in values)
        case ast.IfExp(body=body, orelse=orelse):
            found = _constant(body, wanted=wanted) and _constant(orelse, wanted=wanted)
        case ast.Compare(left=ast.Name(), ops=[ast.IsNot() | ast.Is() as operator], comparators=[ast.Name()]):
            # An object compared with itself is the only one that is no other.
            found = isinstance(operator, ast.IsNot) is wanted
        case ast.Compare(left=left, ops=[operator], comparators=[right]) if ast.dump(left) == ast.dump(right):
            found = isinstance(operator, (ast.Eq, ast.Is, ast.LtE, ast.GtE)) is wanted
    return found
