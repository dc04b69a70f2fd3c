"""Mutates the source of a test so that it expects a wrong value. Pure.

Only the last statements of a test are mutated, so that no cleanup is skipped, and only in a way that no correct
solution can satisfy: no value equals two different values, and no condition is both true and false.
"""

from __future__ import annotations

import ast
import dataclasses
import random
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass

from agentbench.acceptance.decoys.alternative_values import other_expressions, other_literals
from agentbench.core import python_syntax as syntax

Place = tuple[str, ...]
"""Names of the enclosing classes and of the test."""
MAX_SOURCE = 1024 * 1024
_UNSUITABLE_DECORATORS = frozenset({"given", "flaky", "xfail", "retry", "repeat"})
"""Decorators of tests that may fail or that run many times."""
_EXCEPTION_CONTEXTS = frozenset(
    {"raises", "warns", "suppress", "assertRaises", "assertRaisesRegex", "assertWarns", "deprecated_call"}
)
"""Context managers that may swallow or expect an exception: an assertion inside has another meaning."""
_RAISES = frozenset({"raises", "assertRaises"})
_CHANGED_VALUE, _INVERTED = 2, 1
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
_VALUE_CALLS = frozenset(
    {"approx", "Fraction", "Decimal", "complex", "date", "datetime", "time", "timedelta", "Path", "PurePath", "UUID"}
    | {"set", "frozenset", "tuple", "list", "dict", "OrderedDict", "deque", "str", "bytes", "int", "float"}
)
"""Calls that construct a value. Other calls may be product code, which can be wrong alike for both versions."""
_RARE_EXCEPTIONS = ("BufferError", "EOFError", "ReferenceError")
"""Replacements for an expected exception. They are rarely raised, and code may raise exceptions of two common types."""
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
class Mutation:
    """A range of bytes in a source and its possible replacements."""

    line: int
    start: int
    end: int
    replacements: tuple[bytes, ...]
    original: bytes
    rank: int
    """How conclusive the mutation is. A changed value is more conclusive than an inverted condition, because an object
    equal to everything handles `!=` correctly.
    """
    description: str = ""
    """Description of the replacement, if its text does not tell."""

    def describe(self, number: int) -> str:
        original, replacement = (
            part.decode("utf-8", "replace").strip()[:80] for part in (self.original, self.replacements[number])
        )
        return f"{original} replaced by {self.description or replacement}"


def apply_mutations(source: bytes, chosen: Iterable[tuple[Mutation, int]]) -> bytes:
    """Apply mutations, which do not overlap, each with the replacement of the given number."""
    for mutation, number in sorted(chosen, key=lambda pair: -pair[0].start):
        source = source[: mutation.start] + mutation.replacements[number] + source[mutation.end :]
    return source


def find_mutations(source: bytes, wanted: Collection[Place], seed: str) -> Mapping[Place, Mutation]:
    """Return one mutation for each wanted test that can be mutated. Empty if the source is not Python or not UTF-8.

    The same seed gives the same values: code that sees many runs of a test sees the real value no more often than each
    wrong one.
    """
    if len(source) > MAX_SOURCE or source.startswith(b"\xef\xbb\xbf"):
        return {}
    try:
        text = source.decode()
        tree = syntax.parse(text)
    except (ValueError, SyntaxError, RecursionError, MemoryError):
        return {}
    mutations: dict[Place, Mutation] = {}
    for place, function in _test_functions(tree, ()):
        if place in wanted:
            rng = random.Random("\0".join((seed, *place)))  # noqa: S311 - the seed is secret
            chosen = _choose_mutation(function, _TestCode(source, rng, function))
            mutations.pop(place, None)  # of two tests with one name, the last counts
            if chosen is not None:
                mutations[place] = chosen
    if all(_parses(apply_mutations(source, chosen_all)) for chosen_all in _each_replacement(mutations.values())):
        return mutations
    return {
        place: mutation
        for place, mutation in mutations.items()
        if all(_parses(apply_mutations(source, chosen)) for chosen in _each_replacement([mutation]))
    }


def _each_replacement(mutations: Collection[Mutation]) -> Iterator[list[tuple[Mutation, int]]]:
    for number in range(max((len(mutation.replacements) for mutation in mutations), default=0)):
        yield [(mutation, min(number, len(mutation.replacements) - 1)) for mutation in mutations]


def _parses(source: bytes) -> bool:
    try:
        syntax.parse(source)
    except (ValueError, SyntaxError, RecursionError, MemoryError):
        return False
    return True


TestDef = ast.FunctionDef | ast.AsyncFunctionDef


def _test_functions(node: ast.Module | ast.ClassDef, above: Place) -> Iterable[tuple[Place, TestDef]]:
    for child in node.body:
        if isinstance(child, TestDef):
            yield (*above, child.name), child
        elif isinstance(child, ast.ClassDef):
            yield from _test_functions(child, (*above, child.name))


class _TestCode:
    """The source of a test, byte positions of its nodes, and the random numbers for its mutations."""

    def __init__(self, source: bytes, rng: random.Random, test: TestDef) -> None:
        self.source = source
        self.rng = rng
        self.test = test
        self._starts = [0]
        for line in source.splitlines(keepends=True):
            self._starts.append(self._starts[-1] + len(line))

    def start(self, node: ast.expr) -> int:
        return self._starts[node.lineno - 1] + node.col_offset

    def end(self, node: ast.expr) -> int:
        return self._starts[(node.end_lineno or node.lineno) - 1] + (node.end_col_offset or 0)

    def text(self, node: ast.expr) -> str:
        return self.source[self.start(node) : self.end(node)].decode()

    def replace(self, node: ast.expr, rank: int, *replacements: str) -> Mutation:
        return self.mutation(
            node.lineno, self.start(node), self.end(node), rank, *(text.encode() for text in replacements)
        )

    def around(self, node: ast.expr, before: str, after: str, rank: int) -> Mutation:
        return self.replace(node, rank, f"{before}{self.text(node)}{after}")

    def mutation(self, line: int, start: int, end: int, rank: int, *replacements: bytes) -> Mutation:
        return Mutation(line, start, end, replacements, self.source[start:end], rank)


# --- choosing a statement ---------------------------------------------------------------------------------------------


def _choose_mutation(function: TestDef, code: _TestCode) -> Mutation | None:
    decorators = {name for node in function.decorator_list for name in _names(node)}
    if decorators & _UNSUITABLE_DECORATORS or any(
        isinstance(node, ast.Return | ast.Yield | ast.YieldFrom) for node in _own_nodes(function)
    ):
        return None
    mutations = [
        mutation for node in _final_assertions(function.body) if (mutation := _mutate_statement(node, code)) is not None
    ]
    return max(mutations, key=lambda mutation: (mutation.rank, mutation.start), default=None)


def _own_nodes(function: TestDef) -> Iterator[ast.AST]:
    """Yield the nodes of a function without those of functions nested in it."""
    pending: list[ast.AST] = list(function.body)
    while pending:
        node = pending.pop()
        yield node
        if not isinstance(node, TestDef | ast.Lambda | ast.ClassDef):
            pending += ast.iter_child_nodes(node)


def _final_assertions(body: list[ast.stmt]) -> list[ast.stmt]:
    """Return the assertions at the end, followed by nothing but assertions."""
    assertions: list[ast.stmt] = []
    for statement in reversed(body):
        if not _is_assertion(statement):
            break
        assertions.append(statement)
    if assertions or not body:
        return assertions
    last = body[-1]
    if isinstance(last, ast.With | ast.AsyncWith):
        contexts = {name for item in last.items for name in _names(item.context_expr)}
        return [last] if contexts & _RAISES else [] if contexts & _EXCEPTION_CONTEXTS else _final_assertions(last.body)
    if isinstance(last, ast.For) and not last.orelse and isinstance(last.iter, ast.List | ast.Tuple) and last.iter.elts:
        return _final_assertions(last.body)
    return []


def _is_assertion(statement: ast.stmt) -> bool:
    if isinstance(statement, ast.Assert):
        return True
    return isinstance(statement, ast.Expr) and _unittest_assertion(statement.value) is not None


def _unittest_assertion(node: ast.expr) -> tuple[ast.Call, str] | None:
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and isinstance(node.func.value, ast.Name):
        name = node.func.attr
        if node.func.value.id == "self" and (name in _OPPOSITE or name in _EQUALITIES):
            return node, name
    return None


def _names(node: ast.expr) -> set[str]:
    """Return every name and attribute in an expression."""
    names = {part.id for part in ast.walk(node) if isinstance(part, ast.Name)}
    return names | {part.attr for part in ast.walk(node) if isinstance(part, ast.Attribute)}


# --- mutating it ------------------------------------------------------------------------------------------------------


def _mutate_statement(statement: ast.stmt, code: _TestCode) -> Mutation | None:
    if isinstance(statement, ast.Assert):
        return _mutate_condition(statement.test, code)
    if isinstance(statement, ast.Expr) and (call := _unittest_assertion(statement.value)) is not None:
        return _mutate_unittest_call(*call, code)
    if isinstance(statement, ast.With | ast.AsyncWith) and len(statement.items) == 1:
        return _mutate_raises(statement.items[0].context_expr, code)
    return None


def _mutate_condition(test: ast.expr, code: _TestCode) -> Mutation | None:
    if isinstance(test, ast.Constant):
        return None
    mutation = _mutate_comparison(test, code) if isinstance(test, ast.Compare) and len(test.ops) == 1 else None
    return mutation or _invert(test, code)


def _mutate_comparison(test: ast.Compare, code: _TestCode) -> Mutation | None:
    left, right = test.left, test.comparators[0]
    if isinstance(test.ops[0], ast.Eq):
        return _mutate_equality(right, left, code)
    if isinstance(test.ops[0], ast.Is) and isinstance(right, ast.Constant) and isinstance(right.value, bool):
        return code.replace(right, _INVERTED, repr(not right.value))
    if isinstance(test.ops[0], ast.In) and isinstance(left, ast.Constant):
        # Not inverted: a container that contains everything handles `not in` correctly.
        return _mutate_value(left, code)
    between = code.source[code.end(left) : code.start(right)]
    inverted = _OPERATORS.get(b" ".join(between.split()))
    if inverted is None:
        return None
    return code.mutation(left.lineno, code.end(left), code.start(right), _INVERTED, b" %s " % inverted)


def _invert(test: ast.expr, code: _TestCode) -> Mutation:
    """Invert a condition, where possible in the way that people write it."""
    if isinstance(test, ast.Name | ast.Call | ast.Attribute | ast.Subscript):
        return code.around(test, "not ", "", _INVERTED)
    if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        after = code.start(test) + len(b"not")  # a parenthesis may follow
        end = after + (code.source[after : after + 1] == b" ")
        return code.mutation(test.lineno, code.start(test), end, _INVERTED, b"")
    return code.around(test, "not (", ")", _INVERTED)


def _mutate_equality(expected: ast.expr, actual: ast.expr, code: _TestCode) -> Mutation:
    """Return another value: of a literal if there is one, or else computed from the expected value at run time."""
    for side in (expected, actual, _assigned_value(expected, code.test), _assigned_value(actual, code.test)):
        mutation = None if side is None else _mutate_value(side, code)
        if mutation is not None:
            return mutation
    known = _given_names(code.test)
    side = min(expected, actual, key=lambda side: 0 if _names(side) <= known else 1 + _has_call(side))
    replacements = other_expressions(code.text(side), code.rng)
    return dataclasses.replace(
        code.replace(side, _CHANGED_VALUE, *replacements), description="another value of its type"
    )


def _given_names(test: TestDef) -> set[str]:
    """Return the parameters and loop variables of a test."""
    loops = [node.target for node in ast.walk(test) if isinstance(node, ast.For | ast.comprehension)]
    return {node.arg for node in ast.walk(test.args) if isinstance(node, ast.arg)} | {
        name for target in loops for name in _names(target)
    }


def _has_call(node: ast.expr) -> bool:
    return any(isinstance(part, ast.Call | ast.Await) for part in ast.walk(node))


def _assigned_value(name: ast.expr, test: TestDef) -> ast.expr | None:
    """Return the value assigned once to a name that is used for nothing else in the test."""
    if not isinstance(name, ast.Name):
        return None
    uses = [node for node in ast.walk(test) if isinstance(node, ast.Name) and node.id == name.id]
    values = [
        node.value
        for node in test.body
        if isinstance(node, ast.Assign) and len(node.targets) == 1 and node.targets[0] in uses
    ]
    return values[0] if len(uses) == 2 and len(values) == 1 else None


def _mutate_unittest_call(call: ast.Call, name: str, code: _TestCode) -> Mutation | None:
    if name in _EQUALITIES:
        if len(call.args) < 2 or any(isinstance(argument, ast.Starred) for argument in call.args[:2]):
            return None
        return _mutate_equality(call.args[1], call.args[0], code)
    end = code.end(call.func)
    return code.mutation(call.lineno, end - len(name), end, _INVERTED, _OPPOSITE[name].encode())


def _mutate_raises(context: ast.expr, code: _TestCode) -> Mutation | None:
    if not isinstance(context, ast.Call) or not context.args or not _names(context.func) & _RAISES:
        return None
    expected = context.args[0]
    message = next((keyword.value for keyword in context.keywords if keyword.arg == "match"), None)
    mutation = (
        _mutate_value(message, code) if isinstance(message, ast.Constant) and "\\" not in code.text(message) else None
    )
    if mutation is not None:
        return mutation
    others = [name for name in _RARE_EXCEPTIONS if name not in _names(expected)]
    code.rng.shuffle(others)
    return code.replace(expected, _INVERTED, *others)


def _mutate_value(node: ast.expr, code: _TestCode) -> Mutation | None:
    match node:
        case ast.Constant(value=value):
            replacements = other_literals(value, code.text(node), code.rng)
            return code.replace(node, _CHANGED_VALUE, *replacements) if replacements else None
        case ast.UnaryOp(op=ast.USub(), operand=ast.Constant(value=int() | float() as value)):
            replacements = other_literals(-value, "", code.rng)  # the number as a whole: two signs would look odd
            return code.replace(node, _CHANGED_VALUE, *replacements) if replacements else None
        case ast.List(elts=parts) | ast.Tuple(elts=parts) | ast.Set(elts=parts) | ast.Dict(values=parts):
            return _mutate_any(parts, code)
        case ast.Call(func=function, args=parts) if _names(function) & _VALUE_CALLS:
            return _mutate_any(parts, code)
        case _:
            return None


def _mutate_any(parts: list[ast.expr], code: _TestCode) -> Mutation | None:
    """Mutate a random element: code that knew which one could compute it honestly and fake the others."""
    mutation = [other for part in parts if (other := _mutate_value(part, code)) is not None]
    return code.rng.choice(mutation) if mutation else None
