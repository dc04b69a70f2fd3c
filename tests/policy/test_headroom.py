"""Headroom follows the expected cost of acceptance, and the agent may spend the rest of the cap."""

from __future__ import annotations

from dataclasses import asdict

import pytest

from agentbench.core.errors import ContractError
from agentbench.policy.costs import Rates
from agentbench.policy.headroom import Headroom, spendable
from agentbench.policy.prices import parse_prices
from agentbench.policy.thresholds import Thresholds, published_thresholds

pytestmark = pytest.mark.component

RATES = Rates(exec_call_micro=1000, exec_hour_micro=3_600_000, gigabyte_micro=5_000_000)


@pytest.mark.req("M-07b")
def test_reserve_is_execution_with_a_margin_plus_storage() -> None:
    headroom = Headroom(executions=3, execution_us=2_000_000, evidence_bytes=1_000_000, margin_percent=50)
    assert headroom.micro(RATES) == (3 * 1000 + 2000) * 3 // 2 + 5000
    assert headroom.micro(Rates(gigabyte_micro=5_000_000)) == 5000
    assert headroom.micro(Rates()) == 0


@pytest.mark.req("M-07b")
@pytest.mark.parametrize(
    "cap,reserve,left", [(None, 5, None), (0, 5, 1), (0, 0, 1), (100, 0, 100), (100, 40, 60), (100, 100, 1)]
)
def test_agent_may_spend_the_cap_less_the_reserve(cap: int | None, reserve: int, left: int | None) -> None:
    assert spendable(cap, reserve) == left


def test_thresholds_of_earlier_versions_are_accepted() -> None:
    values = {name: value for name, value in asdict(published_thresholds()).items() if "headroom" not in name}
    assert Thresholds.of({**values, "headroom_percent": 2}).violations == published_thresholds().violations


@pytest.mark.req("M-05")
def test_time_of_people_has_a_price_per_minute_or_hour() -> None:
    table = parse_prices(b"action_type,unit,unit_price\nreview,minute,2\n", "prices.csv")
    assert Rates.of(table).review_hour_micro == 120_000_000
    assert Rates.of(table).review(90_000_000) == 3_000_000
    with pytest.raises(ContractError) as caught:
        parse_prices(b"action_type,unit,unit_price\nreview,call,2\n", "prices.csv")
    assert "prices.csv:2: unit: expected one of second, minute, hour for review, found 'call'" in caught.value.problems
