"""docs/reference/findings.md lists every rule."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import agentbench.acceptance

PAGE = (Path(__file__).parents[3] / "docs/reference/findings.md").read_text(encoding="utf-8")


def rules_in_source() -> Iterator[str]:
    """Yield the rule of every finding that the source constructs with a literal rule."""
    for file in Path(agentbench.acceptance.__file__).parent.rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            name = node.func.id if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) else ""
            if name in {"Finding", "RuleMatch"} and isinstance(node, ast.Call) and node.args:
                rule = node.args[0]
                if isinstance(rule, ast.Constant) and isinstance(rule.value, str):
                    yield rule.value


def test_page_lists_every_rule() -> None:
    rules = set(rules_in_source())
    assert {"early_exit", "canary", "shadow_module"} <= rules
    assert [rule for rule in sorted(rules) if f"| `{rule}` |" not in PAGE] == []
