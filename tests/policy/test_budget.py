from __future__ import annotations

from functools import reduce

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentbench.core.reasons import Outcome, TerminationCode
from agentbench.policy.budget import Budget, CostCap, Spent, reached_cap
from agentbench.trace import events
from agentbench.trace.events import Excerpt, LlmResponse, Payload, ToolCallStarted


def call() -> Payload:
    return ToolCallStarted(call_id="1", tool="run", arguments={})


def answer(tokens: int, cost: int) -> Payload:
    return LlmResponse(
        request_id="1",
        status="ok",
        content=Excerpt(),
        prompt_tokens=tokens,
        completion_tokens=0,
        cached_tokens=0,
        cost_micro_usd=cost,
        duration_us=1,
        conversation_index=0,
    )


def cycle(outcome: Outcome) -> Payload:
    return events.TestsFinished(
        step="t",
        outcome=outcome,
        exit_code=1,
        timed_out=False,
        duration_us=1,
        stdout=Excerpt(),
        stderr=Excerpt(),
        why="",
    )


def spent(*payloads: Payload) -> Spent:
    return reduce(Spent.add, payloads, Spent())


@pytest.mark.parametrize(
    "payloads,budget,code",
    [
        ([call()] * 3, Budget(tool_calls=3), TerminationCode.TOOL_CALL_CAP),
        ([call()] * 3, Budget(tool_calls=3, steps_are_calls=True), TerminationCode.MAX_STEPS),
        ([call()] * 2, Budget(tool_calls=3), None),
        ([answer(600, 1)] * 2, Budget(tokens=1000), TerminationCode.TOKEN_CAP),
        ([answer(1, 3_000_000)] * 2, Budget(cost_micro_usd=5_000_000), TerminationCode.COST_CAP),
        ([cycle(Outcome.FAIL), cycle(Outcome.PASS)], Budget(failed_cycles=2), None),
        ([cycle(Outcome.FAIL), cycle(Outcome.ERROR)], Budget(failed_cycles=2), TerminationCode.FAILED_CYCLE_CAP),
        ([call()] * 100, Budget(), None),
        ([], Budget(tool_calls=0), TerminationCode.TOOL_CALL_CAP),
    ],
)
def test_first_reached_cap_ends_the_attempt(
    payloads: list[Payload], budget: Budget, code: TerminationCode | None
) -> None:
    stop = reached_cap(spent(*payloads), budget)
    assert (stop.code if stop else None) is code
    assert stop is None or stop.rationale


@pytest.mark.parametrize(
    "cost_cap,message",
    [
        (CostCap(300_000, 460_000), "cost cap: 0.1001 of 0.30 usd used, 0.46 reserved for acceptance"),
        (CostCap(5_000_000, 0, "abstract"), "cost cap: 0.1001 of 5.00 abstract used"),
        (CostCap(0, 50), "cost cap: 0.1001 of 0.00 usd used, 0.00005 reserved for acceptance"),
        (None, "cost cap: 0.1001 of 0.000001 usd used"),
    ],
)
def test_message_states_the_whole_cost_cap_and_the_reserve(cost_cap: CostCap | None, message: str) -> None:
    stop = reached_cap(spent(answer(1, 100_054)), Budget(cost_micro_usd=1), cost_cap=cost_cap)
    assert stop is not None
    assert stop.rationale == message


@given(st.lists(st.sampled_from([call(), answer(10, 5), cycle(Outcome.FAIL)])), st.integers(0, 20))
def test_reached_cap_stays_reached(payloads: list[Payload], cap: int) -> None:
    budget = Budget(tool_calls=cap, tokens=cap * 10, failed_cycles=cap)
    stops = [reached_cap(spent(*payloads[:length]), budget) is not None for length in range(len(payloads) + 1)]
    assert stops == sorted(stops)
