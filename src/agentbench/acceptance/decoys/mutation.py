"""A mutation: the place in a test file that a decoy changes, and its possible replacements. Pure.

Grading needs only this. Finding mutations takes many more modules, and happens once per task.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

from pydantic import BaseModel, ConfigDict

Kind = Literal["value", "exception", "condition", "said exception"]
Place = tuple[str, ...]
"""Names of the enclosing classes and of the test."""
Row = tuple[str, int]
"""A parameter of `parametrize` and the index of a row of its table."""
MAX_SOURCE = 1024 * 1024
"""Longer test files get no decoys."""


class Mutation(BaseModel):
    """A range of bytes in a source and its possible replacements."""

    model_config = ConfigDict(frozen=True, defer_build=True)
    line: int
    start: int
    end: int
    original: str
    replacements: tuple[str, ...]
    kind: Kind
    """Value and exception: another one is written. Condition: it is inverted, or a truth value is. That is less
    conclusive: an object equal to everything handles `!=` correctly, and where the base repository gives the wrong one
    of two answers, the other one is right. Said exception: words of the test say which one is right.
    """

    @property
    def is_conclusive(self) -> bool:
        return self.kind not in {"condition", "said exception"}

    def describe(self, number: int) -> str:
        original, replacement = (part.strip()[:80] for part in (self.original, self.replacements[number]))
        return f"{original} replaced by {replacement}"


def apply_mutations(source: bytes, chosen: Iterable[tuple[Mutation, int]]) -> bytes:
    """Apply mutations, which do not overlap, each with the replacement of the given number.

    Raises:
        ValueError: the source is not the one that the mutations were made for.
    """
    for mutation, number in sorted(chosen, key=lambda pair: -pair[0].start):
        if source[mutation.start : mutation.end] != mutation.original.encode():
            raise ValueError(f"line {mutation.line} is not `{mutation.original[:80]}`")
        source = source[: mutation.start] + mutation.replacements[number].encode() + source[mutation.end :]
    return source
