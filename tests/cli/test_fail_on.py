"""Conditions of `--fail-on` count as reports do."""

from __future__ import annotations

import pytest

from agentbench.cli.fail_on import conditions_met, parse
from tests.reports.runs import record


@pytest.mark.parametrize("condition", ["attempts==8", "passed==1", "failed==4", "invalid==4", "pass_rate==0.2"])
def test_attempts_count_as_in_the_contract_rate(condition: str) -> None:
    kinds = ["pass", "fail", "policy", "error", "safety", "harness", "task", "operator"]
    assert conditions_met(parse(condition), [record(kind, kind) for kind in kinds])
