"""Conditions of `--fail-on` count as reports do."""

from __future__ import annotations

import pytest

from agentbench.cli.fail_on import conditions_met, parse
from agentbench.core.errors import ContractError
from tests.reports.runs import record


@pytest.mark.parametrize("condition", ["attempts==8", "passed==1", "failed==4", "invalid==4", "pass_rate==0.2"])
def test_attempts_count_as_in_the_contract_rate(condition: str) -> None:
    kinds = ["pass", "fail", "policy", "error", "safety", "harness", "task", "operator"]
    assert conditions_met(parse(condition), [record(kind, kind) for kind in kinds])


def test_every_unknown_metric_is_named_with_a_suggestion() -> None:
    with pytest.raises(ContractError) as caught:
        parse("pas_rate<1, TEST_FAILED>0, cost>1")
    assert [problem.partition(" (")[2].rstrip(")") for problem in caught.value.problems] == [
        "did you mean `pass_rate`?",
        "did you mean `TESTS_FAILED`?",
    ]
