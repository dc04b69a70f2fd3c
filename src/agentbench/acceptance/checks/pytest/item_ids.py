"""Test ids outside the sandbox and opaque ids inside it. Pure.

pytest derives the id of a parametrised test from its parameters, so the id may contain the expected value:
`test_median[values0-2.5]`. In the sandbox, the test has an opaque id in its place: `test_median[#0]`, with its position
among the tests of its function. The runner announces every test with both ids, and everything outside sees real ids
only.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import field

from agentbench.core.dataclass import dataclass

_POSITION = re.compile(r"\[#(0|[1-9][0-9]{0,8})\]", re.ASCII)


@dataclass(frozen=True, slots=True)
class CollectedItem:
    """A test that pytest collected."""

    id: str
    opaque: str
    given: str
    """The id that pytest gave it, which is another one where a decoy changed its parameters."""
    indices: Mapping[str, int] = field(default_factory=dict)
    """The row of each parameter in the table that it comes from; empty without parameters."""


@dataclass(frozen=True, slots=True)
class IdMap:
    """Maps announced tests to real ids.

    A test has the id that pytest gave it, except where a decoy changed the parameters from which pytest derives it:
    then the position decides. Code under test can influence the order and number of some tests, so that a position
    counts only if pytest gave its test the same id with the reference.
    """

    real_ids: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Functions, and the real ids of their tests by position; empty texts where the command deselects a test."""
    altered: frozenset[str] = frozenset()
    """Real ids of tests with changed parameters, or beside such tests, so that pytest may give them other ids."""
    given: Mapping[str, str] | None = None
    """Opaque ids, and the ids that pytest gave these tests with the reference; None if the reference itself is run."""

    def real_id(self, opaque: str, given: str) -> str:
        """Return the real id of a test; its opaque id if it is none of the tests that the reference has."""
        function, position = _split(opaque)
        ids = self.real_ids.get(function, ())
        real = ids[position] if position is not None and position < len(ids) else ""
        if real not in self.altered or not real:
            return given
        return real if self.given is None or self.given.get(opaque) == given else opaque

    def selection(self, tests: Iterable[str]) -> tuple[str, ...]:
        """Return ids that select these tests in the sandbox: opaque ids where positions are known, else functions."""
        opaque = {
            real: opaque_id(function, position)
            for function, ids in self.real_ids.items()
            for position, real in enumerate(ids)
            if real not in {function, ""}
        }
        return tuple(dict.fromkeys(opaque.get(test) or function_id(test) for test in tests))


def function_id(test: str) -> str:
    """Return the id of a test without the part that pytest derives from parameters."""
    file, separator, name = test.partition("::")
    return f"{file}{separator}{name.split('[', 1)[0]}"


def opaque_id(function: str, position: int) -> str:
    return f"{function}[#{position}]"


def ids_by_position(items: Iterable[CollectedItem], functions: Collection[str]) -> Mapping[str, tuple[str, ...]]:
    """Return the real ids of the parametrised tests of these functions, as `IdMap` needs them."""
    positions: dict[str, dict[int, str]] = {}
    for item in items:
        function, position = _split(item.opaque)
        if position is not None and function in functions:
            positions.setdefault(function, {})[position] = item.id
    return {
        function: tuple(ids.get(position, "") for position in range(max(ids) + 1))
        for function, ids in positions.items()
    }


def _split(opaque: str) -> tuple[str, int | None]:
    """Return the function of an opaque id, and the position; None if it has none."""
    function = function_id(opaque)
    position = _POSITION.fullmatch(opaque, len(function))
    return function, None if position is None else int(position[1])
