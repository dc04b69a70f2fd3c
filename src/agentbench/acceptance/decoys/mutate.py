"""Mutates the source of a test so that it expects a wrong value. Pure.

The wrong value is written where the right one is written, and only in a way that no correct solution can satisfy: no
value equals two different values, and no condition is both true and false.
"""

from __future__ import annotations

import ast
import itertools
import random
from collections import Counter
from collections.abc import Collection, Hashable, Mapping

from agentbench.acceptance.decoys.alternative_values import is_alike, other_literals
from agentbench.acceptance.decoys.assertions import (
    OPPOSITE,
    compared_sides,
    comparing_helpers,
    expected_exception,
    final_assertions,
    unittest_assertion,
)
from agentbench.acceptance.decoys.exceptions import other_exceptions
from agentbench.acceptance.decoys.literals import LiteralPart, literal_parts
from agentbench.acceptance.decoys.mutation import Kind, Mutation, Place, Row
from agentbench.acceptance.decoys.places import WrittenValue, written_values
from agentbench.acceptance.decoys.prose import says, word_of
from agentbench.acceptance.decoys.row_id import RowId
from agentbench.acceptance.decoys.shape import Versions, constants_of
from agentbench.acceptance.decoys.source_file import SourceFile, names_in

_MAX_CANDIDATES, _MAX_DRAWN = 20, 100
_SHARED_OTHERWISE = 0.7
"""How often a value becomes that of another literal of the test, if it has one. The rule "it occurs elsewhere in the test"
of `tests/campaigns/guess_decoys.py` measures what this leaves to be seen.
"""
_ANY_ORDER = frozenset({"assertCountEqual", "assertSetEqual", "set", "frozenset", "dict", "Counter", "sorted"})
"""Names in assertions for which the order of elements may not matter."""
_MIN_CONTAINED = 4
"""Shortest text to search for another one instead of it: shorter ones occur by chance."""
_PATTERN_CHARACTERS = frozenset("\\|[]{}()*+?^$")
_OPERATORS = {
    b"==": b"!=",
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


def find_mutations(
    source: bytes,
    wanted: Collection[Place],
    seed: str,
    new_names: frozenset[str] = frozenset(),
    new_lines: frozenset[int] = frozenset(),
) -> Mapping[Place, Mapping[Row | None, Mutation]]:
    """Return the mutations of each wanted test: one, or one for each row of `parametrize`.

    `new_names` are those of classes that the base repository does not have. A solution may decide which of their values
    make two objects equal, so their arguments stay. `new_lines` are those that the base repository's file does not have:
    an assertion there is changed if there is one, because the unchanged code may pass the others.

    Empty if the source is not Python or not UTF-8. The same seed gives the same values: code that sees many runs of a
    test sees the real value no more often than each wrong one.
    """
    try:
        file = SourceFile(source)
        everywhere = constants_of(source)
    except (ValueError, SyntaxError, RecursionError, MemoryError):
        return {}
    mutations: dict[Place, Mapping[Row | None, Mutation]] = {}
    for place in file.functions:
        if place in wanted:
            rng = random.Random("\0".join((seed, *place)))  # noqa: S311 - the seed is secret
            mutations[place] = _TestMutator(file, everywhere, place, rng, new_names, new_lines).mutations()
    return {place: by_row for place, by_row in mutations.items() if by_row}


class _TestMutator:
    """Finds the mutations of one test."""

    def __init__(
        self,
        file: SourceFile,
        everywhere: Counter[Hashable],
        place: Place,
        rng: random.Random,
        new_names: frozenset[str],
        new_lines: frozenset[int],
    ) -> None:
        self._file = file
        self._everywhere = everywhere
        self._test = test = file.functions[place]
        self._rng = rng
        self._new_names = new_names
        self._place = place
        self._prose = file.prose(test, place)
        self._helpers = comparing_helpers(file.tree, test)
        self._assertions = final_assertions(test, self._helpers)
        # In random order: code that knew which assertion is changed could answer only this one honestly.
        rng.shuffle(self._assertions)
        self._assertions.sort(key=lambda node: new_lines.isdisjoint(range(node.lineno, (node.end_lineno or 0) + 1)))
        self._constants = [node for part in test.body for node in ast.walk(part) if isinstance(node, ast.Constant)]

    def mutations(self) -> Mapping[Row | None, Mutation]:
        """Return mutations of all rows, else one of the whole test, else of some rows, else an inverted condition."""
        by_row: dict[Row | None, Mutation] = {}
        rows: set[Row | None] = set()
        for statement in self._assertions:
            expected = self._expected(statement)
            self._constants += [
                part.node
                for written in expected
                if written.row
                for part in literal_parts(written.node, self._new_names)
            ]
            for written in expected:
                rows.add(written.row)
                earlier = by_row.get(written.row)
                if earlier is None or earlier.kind == "condition":
                    mutation = self._exchange(written.node, statement) or self._mutate_value(written) or earlier
                    by_row.update({} if mutation is None else {written.row: mutation})
        of_test = by_row.pop(None, None)
        tables = {row[0] for row in by_row if row is not None}
        if len(tables) == 1 and (of_test is None or len(by_row) == len(rows - {None})):
            return by_row
        of_test = of_test or self._other_exception() or self._inverted()
        return {} if of_test is None else {None: of_test}

    # --- values ---------------------------------------------------------------------------------------------------

    def _expected(self, statement: ast.stmt) -> list[WrittenValue]:
        """Return where the expected value of an assertion is written, in random order."""
        sides = compared_sides(statement, self._helpers)
        values: list[WrittenValue] = []
        if sides is not None:
            expected, actual = sides
            values = written_values(expected, self._test, self._assertions, self._file, self._helpers)
            if isinstance(actual, ast.Name | ast.Constant | ast.List | ast.Tuple | ast.Dict | ast.Set | ast.UnaryOp):
                values += written_values(actual, self._test, self._assertions, self._file, self._helpers)
        elif isinstance(statement, ast.Assert):
            match statement.test:
                case ast.Compare(ops=[ast.Is()], comparators=[ast.Constant(value=bool()) as right]):
                    values = [WrittenValue(right)]
                case ast.Compare(left=ast.Constant(value=str() | bytes() as text) as left, ops=[ast.In()]):
                    # Not inverted: a container that contains everything handles `not in` correctly.
                    values = [WrittenValue(left, searched=True)] if len(text) >= _MIN_CONTAINED else []
        else:
            values = self._expected_message(statement)
        self._rng.shuffle(values)
        return values

    def _expected_message(self, statement: ast.stmt) -> list[WrittenValue]:
        call = expected_exception(statement)
        for keyword in call.keywords if call is not None else ():
            match keyword:
                case ast.keyword(arg="match", value=ast.Constant(value=str() as text) as message):
                    plain = len(text) >= _MIN_CONTAINED and not _PATTERN_CHARACTERS.intersection(text)
                    return [WrittenValue(message, searched=True)] if plain else []
        return []

    def _exchange(self, value: ast.expr, statement: ast.stmt) -> Mutation | None:
        """Exchange two elements of half of the lists: code could recognise others by elements that are not its input's."""
        elements = value.elts if isinstance(value, ast.List | ast.Tuple) else []
        if self._rng.random() < 1 / 2 or _ANY_ORDER & names_in(statement):
            return None
        candidates = [element for element in elements if self._is_exchangeable(element)]
        pairs = [
            (left, right)
            for left, right in itertools.combinations(candidates[:_MAX_CANDIDATES], 2)
            if _kinds_of(left) == _kinds_of(right) and ast.dump(left) != ast.dump(right)
        ]
        self._rng.shuffle(pairs)
        exchanged = (self._with_exchanged(value, left, right) for left, right in pairs)
        return self._replace(value, "value", self._versions(value, value).same(exchanged))

    def _is_exchangeable(self, element: ast.expr) -> bool:
        """Return whether an element of a list is a literal, or a row of literals, that no words say."""
        if isinstance(element, ast.Constant):
            return not self._is_in_prose(element)
        return isinstance(element, ast.Tuple | ast.List) and all(
            isinstance(part, ast.Constant) for part in element.elts
        )

    def _with_exchanged(self, value: ast.expr, left: ast.expr, right: ast.expr) -> str:
        file = self._file
        source, first, last = file.source, file.start(value), file.end(value)
        before, between = source[first : file.start(left)], source[file.end(left) : file.start(right)]
        after = source[file.end(right) : last]
        return f"{before.decode()}{file.text(right)}{between.decode()}{file.text(left)}{after.decode()}"

    def _mutate_value(self, written: WrittenValue) -> Mutation | None:
        """Change a random part of a value: code that knew which one could compute it honestly and fake the others."""
        parts = list(literal_parts(written.node, self._new_names))
        self._rng.shuffle(parts)
        parts.sort(key=lambda part: isinstance(part.value, bool))
        for part in parts:
            row_id = None
            if self._is_in_prose(part.node):
                row_id = RowId.of(part.node, written, self._file)
                if row_id is None or self._is_in_prose(part.node, without=row_id.node):
                    continue
            text = self._file.text(part.node)
            others = other_literals(part.value, text, self._rng, searched=written.searched)
            new = list(itertools.islice(others, _MAX_CANDIDATES))
            in_file = self._file.literals[type(part.value)]
            near: list[str] = []
            if written.searched:
                new = [other for other in new if not any(other[1:-1] in literal for literal in in_file)]
            else:
                near = self._drawn(part.value, text, [self._file.text(other) for other in self._constants])
                new = [*self._drawn(part.value, text, in_file), *new] if in_file.count(text) > 1 else new
            if row_id is not None:
                new, near = row_id.possible(new), row_id.possible(near)
            mutation = self._choose(written.node, part, new, near)
            if mutation is not None:
                return mutation if row_id is None else row_id.widened(mutation)
        return None

    def _is_in_prose(self, literal: ast.Constant, *, without: ast.expr | None = None) -> bool:
        """Return whether the test also says a value in words, which would still say the right one."""
        prose = self._prose if without is None else self._file.prose(self._test, self._place, without=without)
        return says(prose, word_of(literal.value, self._file.text(literal)))

    def _drawn(self, value: object, text: str, literals: list[str]) -> list[str]:
        """Return other literals in the same style, each the more likely the more often it occurs."""
        drawn = dict.fromkeys(self._rng.sample(literals, min(len(literals), _MAX_DRAWN)))
        return list(itertools.islice((other for other in drawn if is_alike(value, text, other)), _MAX_CANDIDATES))

    def _choose(self, value: ast.expr, part: LiteralPart, new: list[str], near: list[str]) -> Mutation | None:
        """Return a mutation whose replacements look like the original when they are compiled.

        A value that occurs once becomes a value that occurs once, and one that occurs elsewhere in the test becomes
        another such value. Where that is impossible, the two differ in how often they occur. To keep that from telling
        them apart too often, some values that occur once become values that occur elsewhere. This is rarer than the
        reverse, because not every test has such a literal.
        """
        new, near = ([text for text in texts if part.accepts(text)] for texts in (new, near))
        versions = self._versions(value, part.node)
        replacements = versions.same([*new, *near])
        if not replacements or self._rng.random() < _SHARED_OTHERWISE:
            replacements = versions.similar(near if replacements else [*new, *near]) or replacements
        kind: Kind = "condition" if isinstance(part.value, bool) and part.node is value else "value"
        return self._replace(part.node, kind, replacements)

    def _versions(self, value: ast.expr, part: ast.expr) -> Versions:
        around = self._file.function_around(part.lineno)
        first, last = self._file.lines(around) if around else (self._file.start(value), self._file.end(value))
        span = (first, self._file.start(part), self._file.end(part), last)
        return Versions(self._file.source, span, self._everywhere, expression=around is None)

    def _replace(self, node: ast.expr, kind: Kind, replacements: list[str]) -> Mutation | None:
        start, end = self._file.start(node), self._file.end(node)
        return self._mutation(node.lineno, start, end, kind, *replacements) if replacements else None

    def _mutation(self, line: int, start: int, end: int, kind: Kind, *replacements: str) -> Mutation:
        original = self._file.source[start:end].decode()
        return Mutation(line=line, start=start, end=end, original=original, replacements=replacements, kind=kind)

    # --- exceptions and conditions --------------------------------------------------------------------------------

    def _other_exception(self) -> Mutation | None:
        for statement in self._assertions:
            call = expected_exception(statement)
            if call is not None:
                is_said = says(self._prose, self._file.text(call.args[0]).rpartition(".")[2])
                kind: Kind = "said exception" if is_said else "exception"
                others = other_exceptions(call.args[0], self._file, self._rng)
                versions = self._versions(call.args[0], call.args[0])
                return self._replace(call.args[0], kind, versions.same(others) or versions.similar(others))
        return None

    def _inverted(self) -> Mutation | None:
        mutations = [mutation for node in self._assertions if (mutation := self._invert_statement(node)) is not None]
        return next(iter(mutations), None)

    def _invert_statement(self, statement: ast.stmt) -> Mutation | None:
        if isinstance(statement, ast.Assert) and not isinstance(statement.test, ast.Constant):
            return self._invert(statement.test)
        named = unittest_assertion(statement.value) if isinstance(statement, ast.Expr) else None
        if named is None or named[1] not in OPPOSITE:
            return None
        call, name = named
        end = self._file.end(call.func)
        return self._mutation(call.lineno, end - len(name), end, "condition", OPPOSITE[name])

    def _invert(self, test: ast.expr) -> Mutation:
        """Invert a condition, where possible in the way that people write it."""
        file, start, end = self._file, self._file.start(test), self._file.end(test)
        match test:
            case ast.Compare(left=left, ops=[_], comparators=[right]):
                operator, stop = file.end(left), file.start(right)
                inverted = _OPERATORS.get(b" ".join(file.source[operator:stop].split()))
                if inverted is not None:
                    return self._mutation(left.lineno, operator, stop, "condition", f" {inverted.decode()} ")
            case ast.Name() | ast.Call() | ast.Attribute() | ast.Subscript():
                return self._mutation(test.lineno, start, end, "condition", f"not {file.text(test)}")
            case ast.UnaryOp(op=ast.Not()):
                after = start + len(b"not")  # a parenthesis may follow
                space = after + (file.source[after : after + 1] == b" ")
                return self._mutation(test.lineno, start, space, "condition", "")
        return self._mutation(test.lineno, start, end, "condition", f"not ({file.text(test)})")


def _kinds_of(element: ast.expr) -> tuple[type, ...]:
    """Return the type of a literal, or the types of a row and of the literals in it."""
    if isinstance(element, ast.Tuple | ast.List):
        return type(element), *(kind for part in element.elts for kind in _kinds_of(part))
    return (type(element.value) if isinstance(element, ast.Constant) else type(element),)
