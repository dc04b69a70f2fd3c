"""Every registered breaker trips at its threshold, and `recheck` confirms it."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from agentbench.core.reasons import TerminationCode
from agentbench.policy import breakers
from agentbench.policy.breakers import Violations
from agentbench.policy.budget import Budget, reached_cap
from agentbench.policy.limits import Limits
from agentbench.policy.monitors import PolicyMonitor
from agentbench.policy.rule_engine import BREAKERS
from tests.policy.test_breakers import NEAR_MISSES, TRIPS, Scenario, failing_states, refused_patches, same_call, spend
from tests.policy.traces import ScriptedTrace, limits

pytestmark = pytest.mark.synthetic

Pair = tuple[Scenario, Scenario, Limits, str]
"""A scenario that trips, a near miss, the limits, and the rule."""


def scenario_named(name: str) -> Scenario:
    scenarios: dict[str, Scenario] = {case[0]: case[1] for case in TRIPS} | {case[0]: case[1] for case in NEAR_MISSES}
    return scenarios[name]


def timed_out(*, yes: bool) -> Scenario:
    return lambda trace: trace.call("run", error="timeout" if yes else None, timed_out=yes, took=119, command="make")


def burst(calls: int) -> Scenario:
    def scenario(trace: ScriptedTrace) -> None:
        for number in range(calls):
            trace.call("read_file", path=str(number))

    return scenario


def prohibited(times: int) -> Scenario:
    def scenario(trace: ScriptedTrace) -> None:
        for number in range(times):
            trace.call("run", error="command_denied", command=f"cat ~/.ssh/id_rsa {number}")

    return scenario


CAPS = Limits(Budget(cost_micro_usd=1000, tokens=1000), 1000 * 1_000_000)
PAIRS: dict[Callable[..., object], Pair] = {
    breakers.Backpressure: (burst(6), burst(5), limits(burst_calls=5), "burst"),
    breakers.CommandCeiling: (timed_out(yes=True), timed_out(yes=False), limits(), "command_ceiling"),
    breakers.FailedWrites: (refused_patches(5), refused_patches(4, then="x"), limits(), "write_suspension"),
    breakers.RepeatedCalls: (same_call(8), same_call(7), limits(), "repeated_calls"),
    breakers.RepeatedInstalls: (
        scenario_named("the same installation four times"),
        scenario_named("three installations and another"),
        limits(),
        "repeated_installs",
    ),
    breakers.Oscillation: (failing_states("ABABAB"), failing_states("ABABACDEF"), limits(), "oscillation"),
    breakers.NoProgress: (
        scenario_named("sixty calls without a change"),
        scenario_named("fifty-nine calls without a change"),
        limits(wall_sec=None),
        "no_progress",
    ),
    breakers.Dominance: (spend(cost=800), spend(cost=799), CAPS, "dominance"),
    Violations: (prohibited(3), prohibited(2), limits(), "violations"),
}


def test_every_breaker_has_a_trip_and_a_near_miss() -> None:
    assert set(PAIRS) == {*BREAKERS, Violations}


@pytest.mark.req("M-03a", "M-10", "E-07a")
@pytest.mark.parametrize("which", PAIRS, ids=lambda breaker: breaker.__name__)
def test_breaker_trips_exactly_at_its_threshold(which: Callable[..., object]) -> None:
    trips, misses, held, rule = PAIRS[which]
    for scenario, tripped in ((trips, True), (misses, False)):
        trace = ScriptedTrace(held, PolicyMonitor())
        scenario(trace)
        assert (rule in trace.rules) is tripped
        trace.end()
        assert trace.recheck() == []
        if tripped:
            # Removing a decision from the log is detected.
            decisions = [event for event in trace.log if getattr(event.payload, "rule", None) == rule]
            trace.log.remove(decisions[0])
            assert trace.recheck()


CAP_PAIRS: dict[TerminationCode, tuple[Budget, Scenario, Scenario]] = {
    TerminationCode.COST_CAP: (Budget(cost_micro_usd=100), spend(cost=100), spend(cost=99)),
    TerminationCode.TOKEN_CAP: (Budget(tokens=100), spend(tokens=100), spend(tokens=99)),
    TerminationCode.TOOL_CALL_CAP: (Budget(tool_calls=7), same_call(7), same_call(6)),
    TerminationCode.MAX_STEPS: (Budget(tool_calls=7, steps_are_calls=True), same_call(7), same_call(6)),
    TerminationCode.FAILED_CYCLE_CAP: (Budget(failed_cycles=3), failing_states("ABC"), failing_states("AB")),
}


@pytest.mark.req("M-03a", "M-07a", "C-09")
@pytest.mark.parametrize("code", CAP_PAIRS, ids=str)
def test_cap_is_reached_exactly(code: TerminationCode) -> None:
    budget, over, under = CAP_PAIRS[code]
    for scenario, hit in ((over, True), (under, False)):
        trace = ScriptedTrace(limits(budget))
        scenario(trace)
        cap = reached_cap(trace.engine.spent, budget)
        assert (cap is not None and cap.code is code) is hit


@pytest.mark.req("M-06a", "M-07a")
def test_execution_alone_reaches_the_cost_cap() -> None:
    budget = Budget(cost_micro_usd=1000, exec_call_micro=100, exec_hour_micro=3_600_000)
    for calls, hit in ((9, True), (8, False)):
        trace = ScriptedTrace(limits(budget, wall_sec=None))
        for number in range(calls):
            trace.call("run", took=0.02, command=str(number))
        cap = reached_cap(trace.engine.spent, budget)
        assert (cap is not None) is hit
