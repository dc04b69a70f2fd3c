from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentbench.policy.costs import Costs, Metered, itemise
from agentbench.policy.prices import FALLBACK, parse_prices

pytestmark = pytest.mark.synthetic

TABLE = parse_prices(
    b"action_type,unit,unit_price,notes\ntool_call,call,0.001,\ntool_call,second,0.01,\nartifact_storage,megabyte,0.5,\n",
    "prices.csv",
)


@pytest.mark.req("M-06a")
def test_every_component_has_its_own_price() -> None:
    metered = Metered(
        lm_micro=70, tool_calls=3, tool_us=2_000_000, steps=2, step_us=4_000_000, evidence_bytes=2_000_000
    )
    costs = itemise(metered, TABLE)
    assert costs == Costs(lm=70, exec=3 * 1000 + 20_000 + 2 * 1000 + 40_000, human=0, overhead=1_000_000)
    assert costs.total == costs.lm + costs.exec + costs.overhead


@pytest.mark.req("M-05", "M-06a")
@given(st.integers(0, 500), st.integers(0, 10**9), st.integers(0, 10**8))
def test_more_work_never_costs_less(calls: int, took: int, stored: int) -> None:
    some = Metered(tool_calls=calls, tool_us=took, evidence_bytes=stored)
    more = Metered(tool_calls=calls + 1, tool_us=took + 1, evidence_bytes=stored + 1)
    for prices in (TABLE, FALLBACK):
        assert 0 <= itemise(some, prices).total <= itemise(more, prices).total


def test_nothing_done_costs_nothing() -> None:
    assert itemise(Metered(), FALLBACK).total == 0
    assert itemise(Metered(), TABLE).total == 0
