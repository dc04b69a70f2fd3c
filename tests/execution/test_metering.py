"""Execution is charged to the account while it runs."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentbench.execution.attempt.metering import Meter, priced
from agentbench.models.ledger import Caps, Ledger
from agentbench.policy.budget import Budget, Spent
from agentbench.policy.costs import Rates
from agentbench.policy.prices import FallbackSchedule, parse_prices
from agentbench.trace.events import Excerpt, LlmRequest, ToolCallFinished, ToolCallStarted

pytestmark = pytest.mark.component

RATES = Rates.of(parse_prices(b"action_type,unit,unit_price\ntool_call,call,0.5\ntool_call,second,0.1\n", "p"))


def started(number: int) -> ToolCallStarted:
    return ToolCallStarted(call_id=f"c{number}", tool="run", arguments={})


def finished(number: int, duration_us: int) -> ToolCallFinished:
    return ToolCallFinished(call_id=f"c{number}", tool="run", ok=True, duration_us=duration_us)


@pytest.mark.req("M-06a", "M-07a")
def test_long_call_is_charged_in_parts_and_only_once() -> None:
    now = [0.0]
    account = Ledger().attempt("t", Caps.of(usd=3.0))
    meter = Meter(account, RATES, lambda: now[0])
    ask = LlmRequest(request_id="r", provider="p", model="m", parameters={}, messages=Excerpt(), conversation_index=0)
    meter(started(1))
    assert account.statement().parts["exec"] == 500_000
    now[0] = 10.0
    meter(ask)
    assert account.statement().parts["exec"] == 1_500_000
    assert account.used_up() is None
    now[0] = 30.0
    meter(ask)
    assert account.used_up() is not None
    meter(finished(1, 30_000_000))
    assert account.statement().parts["exec"] == 3_500_000
    assert account.statement().parts["lm"] == 0


@pytest.mark.req("M-06a")
@given(st.lists(st.integers(0, 600_000_000), max_size=30))
def test_cost_from_the_log_matches_the_account(durations: list[int]) -> None:
    for rates in (RATES, Rates.of(FallbackSchedule())):
        account = Ledger().attempt("t")
        meter = Meter(account, rates, lambda: 0.0)
        spent, budget = Spent(), priced(Budget(), rates)
        for number, took in enumerate(durations):
            for event in (started(number), finished(number, took)):
                meter(event)
                spent = spent.add(event)
        assert meter.booked == spent.cost_micro(budget)
