from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentbench.policy.costs import Costs, Executions, Metered, Rates, itemise
from agentbench.policy.prices import FALLBACK, parse_prices

pytestmark = pytest.mark.synthetic

TABLE = parse_prices(
    b"action_type,unit,unit_price,notes\ntool_call,call,0.001,\ntool_call,second,0.01,\nartifact_storage,megabyte,0.5,\n"
    b"review,hour,30,\n",
    "prices.csv",
)


@pytest.mark.req("M-06a")
def test_every_component_has_its_own_price() -> None:
    metered = Metered(
        lm_micro=70,
        judge_micro=5,
        setup=Executions(1, 1_000_000),
        tools=Executions(3, 2_000_000),
        acceptance=Executions(2, 4_000_000),
        review_us=90_000_000,
        evidence_bytes=2_000_000,
    )
    costs = itemise(metered, Rates.of(TABLE))
    assert costs == Costs(
        setup=1000 + 10_000,
        lm=70,
        tools=3 * 1000 + 20_000,
        acceptance=2 * 1000 + 40_000,
        human=750_000,
        overhead=1_000_000,
        judge=5,
    )
    assert costs.exec == costs.setup + costs.tools + costs.acceptance
    assert costs.total == costs.lm + costs.exec + costs.human + costs.overhead + costs.judge
    assert sum(costs.phases.values()) == costs.total


@pytest.mark.req("M-05", "M-06a")
@given(st.integers(0, 500), st.integers(0, 10**9), st.integers(0, 10**8))
def test_more_work_never_costs_less(calls: int, took: int, stored: int) -> None:
    some = Metered(tools=Executions(calls, took), evidence_bytes=stored)
    more = Metered(tools=Executions(calls + 1, took + 1), evidence_bytes=stored + 1)
    for prices in (TABLE, FALLBACK):
        assert 0 <= itemise(some, Rates.of(prices)).total <= itemise(more, Rates.of(prices)).total


def test_nothing_done_costs_nothing() -> None:
    assert itemise(Metered(), Rates.of(FALLBACK)).total == 0
    assert itemise(Metered(), Rates.of(TABLE)).total == 0
