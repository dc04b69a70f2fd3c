"""Test ids outside the sandbox and opaque ids inside it. Pure.

pytest derives the id of a parametrised test from its parameters, so the id may contain the expected value:
`test_median[values0-2.5]`. In the sandbox, the test has an opaque id in its place: `test_median[#0]`, with its position
among the tests of its function. The runner announces every test with both ids, and everything outside sees real ids
only.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

_POSITION = re.compile(r"\[#(0|[1-9][0-9]{0,8})\]", re.ASCII)


@dataclass(frozen=True, slots=True)
class CollectedItem:
    """A test that pytest collected."""

    id: str
    opaque: str
    indices: Mapping[str, int] = field(default_factory=dict)
    """The row of each parameter in the table that it comes from; empty without parameters."""


@dataclass(frozen=True, slots=True)
class IdMap:
    """Maps announced tests to real ids.

    A test has the id that pytest gave it, except where a decoy changed the parameters from which pytest derives it:
    then the position decides. Positions are not used elsewhere: code under test can influence the order of some tests.
    """

    real_ids: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Functions, and the real ids of their tests in order."""
    altered: frozenset[str] = frozenset()
    """Real ids of tests with changed parameters."""

    def real_id(self, opaque: str, given: str) -> str:
        """Return the real id of a test. `given`: the id that pytest gave it."""
        function = function_id(opaque)
        position = _POSITION.fullmatch(opaque, len(function))
        ids = self.real_ids.get(function, ())
        if position is not None and int(position[1]) < len(ids):
            real = ids[int(position[1])]
            return real if real in self.altered else given
        return given

    def selection(self, tests: Iterable[str]) -> tuple[str, ...]:
        """Return ids that select these tests in the sandbox: opaque ids where positions are known, else functions."""
        opaque = {
            real: opaque_id(function, position)
            for function, ids in self.real_ids.items()
            for position, real in enumerate(ids)
            if real != function
        }
        return tuple(dict.fromkeys(opaque.get(test) or function_id(test) for test in tests))


def function_id(test: str) -> str:
    """Return the id of a test without the part that pytest derives from parameters."""
    file, separator, name = test.partition("::")
    return f"{file}{separator}{name.split('[', 1)[0]}"


def opaque_id(function: str, position: int) -> str:
    return f"{function}[#{position}]"
