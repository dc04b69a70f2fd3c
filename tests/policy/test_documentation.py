"""The docs list every threshold with its value and every rule with its action."""

from __future__ import annotations

import json
from dataclasses import asdict
from importlib.resources import files
from pathlib import Path

import pytest

from agentbench.policy.monitor_rules import Rule, published_rules
from agentbench.policy.monitors import NEW_DEPENDENCY
from agentbench.policy.thresholds import Thresholds, published_thresholds

pytestmark = pytest.mark.component

THRESHOLDS = json.loads(files("agentbench.policy").joinpath("thresholds.json").read_text(encoding="utf-8"))[
    "thresholds"
]
PAGE = (Path(__file__).parents[2] / "docs" / "reference/configuration.md").read_text(encoding="utf-8")


@pytest.mark.req("M-03a", "M-10")
@pytest.mark.parametrize("name,value", asdict(published_thresholds()).items())
def test_every_threshold_is_documented_with_its_value(name: str, value: int) -> None:
    assert f"| `{name}` | {value} | {THRESHOLDS[name]['meaning']} |" in PAGE


@pytest.mark.req("M-02a")
@pytest.mark.parametrize("rule", published_rules().rules, ids=lambda rule: rule.id)
def test_every_rule_is_documented_with_its_action_and_severity(rule: Rule) -> None:
    row = next(line for line in PAGE.splitlines() if line.startswith(f"| `{rule.id}` |"))
    assert f"| {rule.action}" in row
    assert f"| {rule.severity} |" in row
    assert f"`{NEW_DEPENDENCY}`" in PAGE


@pytest.mark.parametrize("values", [{}, {"identical_calls": 1}, {**asdict(published_thresholds()), "violations": 0}])
def test_invalid_thresholds_are_rejected(values: dict[str, int]) -> None:
    with pytest.raises(ValueError, match="thresholds"):
        Thresholds.of(values)
