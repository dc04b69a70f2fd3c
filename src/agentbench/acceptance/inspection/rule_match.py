"""A place in Python source that matches an inspection rule, and helpers that the rules share. Pure."""

from __future__ import annotations

import ast
from bisect import bisect_left
from collections.abc import Sequence
from typing import TypeVar, cast

from agentbench.core.dataclass import dataclass

Node = TypeVar("Node", bound=ast.AST)


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
        return any_between(lines, self.line, max(self.line, self.last_line))


def any_between(lines: Sequence[int], first: int, last: int) -> bool:
    """Return whether one of these lines, which are in order, is in a range."""
    index = bisect_left(lines, first)
    return index < len(lines) and lines[index] <= last


class SyntaxNodes:
    """All nodes of a syntax tree, in the order of `ast.walk`: parents come before their children."""

    def __init__(self, tree: ast.Module) -> None:
        self.tree = tree
        self.nodes: list[ast.AST] = [tree]
        self._by_type: dict[type, list[ast.AST]] = {}
        for node in self.nodes:
            self._by_type.setdefault(type(node), []).append(node)
            for name in node._fields:
                value = getattr(node, name, None)
                if isinstance(value, ast.AST):
                    self.nodes.append(value)
                elif isinstance(value, list):
                    self.nodes += [item for item in value if isinstance(item, ast.AST)]

    def of(self, kind: type[Node]) -> list[Node]:
        """Return the nodes of exactly this type."""
        return cast("list[Node]", self._by_type.get(kind, []))


def dotted(node: ast.expr) -> list[str]:
    """Return the parts of `a.b.c`, or an empty list for any other expression."""
    parts: list[str] = []
    while isinstance(node, ast.Attribute):
        parts.append(node.attr)
        node = node.value
    return [node.id, *reversed(parts)] if isinstance(node, ast.Name) else []
