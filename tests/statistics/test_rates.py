from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentbench.core.reasons import InvalidCause
from agentbench.statistics.rates import rates
from agentbench.statistics.trials import Rate
from tests.statistics.trials import trial

pytestmark = pytest.mark.component


@pytest.mark.req("A-01", "G-16")
def test_each_rate_has_its_own_denominator() -> None:
    outcomes = ["pass", "pass", "policy", "fail", "error", "harness", "task", "operator", "safety"]
    result = rates([trial(f"t{number}", outcome) for number, outcome in enumerate(outcomes)])
    assert (result.attempts, result.scorable) == (9, 5)
    assert (result.acceptance.count, result.acceptance.total) == (3, 5)
    assert (result.contract.count, result.contract.total) == (2, 6)
    assert (result.acceptance_error.count, result.acceptance_error.total) == (1, 5)
    assert (result.invalid_fraction.count, result.invalid_fraction.total) == (4, 9)
    assert result.invalid == dict.fromkeys(InvalidCause, 1)
    assert result.of(Rate.ACCEPTANCE) is result.acceptance


@pytest.mark.req("A-01", "G-14")
def test_all_invalid_run_has_no_rate() -> None:
    result = rates([trial("t", "harness"), trial("u", "task")])
    assert (result.acceptance.share, result.acceptance.interval) == (None, None)
    assert (result.contract.share, result.contract.total) == (None, 0)
    assert result.invalid_fraction.share == 1.0
    assert rates([]).contract.share is None


@pytest.mark.req("G-16")
@given(st.lists(st.sampled_from(["pass", "fail", "error", "harness", "task", "operator"]), max_size=20))
def test_safety_stop_never_raises_the_contract_rate(outcomes: list[str]) -> None:
    before = rates([trial(f"t{n}", outcome) for n, outcome in enumerate(outcomes)]).contract
    after = rates([trial(f"t{n}", outcome) for n, outcome in enumerate([*outcomes, "safety"])]).contract
    assert after.total == before.total + 1
    assert (after.share or 0) <= (before.share if before.share is not None else 0)
