"""A suspicious place in Python source, and what the rules that find them share. Pure."""

from __future__ import annotations

import ast
from collections.abc import Collection
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Suspicion:
    """One place. `grave` when honest code has no use for it.

    `token` is the word that makes it one: a file of R that already has the word may have it again. Empty: no such excuse.
    """

    rule: str
    line: int
    detail: str
    token: str
    grave: bool
    only_product: bool = True
    """Means nothing in a test of the agent's own."""
    last: int = 0
    """Last line of the place, where it has several."""

    def touches(self, lines: Collection[int]) -> bool:
        return any(self.line <= line <= max(self.line, self.last) for line in lines)


def dotted(node: ast.expr) -> list[str]:
    """`a.b.c` as its parts; empty for anything else."""
    parts: list[str] = []
    while isinstance(node, ast.Attribute):
        parts.append(node.attr)
        node = node.value
    return [node.id, *reversed(parts)] if isinstance(node, ast.Name) else []
