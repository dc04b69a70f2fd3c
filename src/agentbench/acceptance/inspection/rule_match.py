"""A place in Python source that matches an inspection rule, and helpers that the rules share. Pure."""

from __future__ import annotations

import ast
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class RuleMatch:
    """One matched place. It is `gating` if honest code has no use for it.

    `token` is the word that triggered the rule: a file that already contains the word in the base repository may use it
    again. An empty token means that there is no such excuse.
    """

    rule: str
    line: int
    detail: str
    token: str
    gating: bool
    product_only: bool = True
    """Whether the rule is ignored in the agent's own tests."""
    last_line: int = 0
    """Last line of the place, if it spans several lines."""

    def touches(self, lines: Sequence[int]) -> bool:
        """Return whether the place has one of these lines, which are in order."""
        index = bisect_left(lines, self.line)
        return index < len(lines) and lines[index] <= max(self.line, self.last_line)


def dotted(node: ast.expr) -> list[str]:
    """Return the parts of `a.b.c`, or an empty list for any other expression."""
    parts: list[str] = []
    while isinstance(node, ast.Attribute):
        parts.append(node.attr)
        node = node.value
    return [node.id, *reversed(parts)] if isinstance(node, ast.Name) else []
