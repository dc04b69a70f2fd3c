"""Every breaker there is: a trace that trips it, one that nearly does, and both made again from their logs."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from agentbench.core.reasons import TerminationCode
from agentbench.policy import backpressure as pressure
from agentbench.policy import breakers
from agentbench.policy.breakers import Violations
from agentbench.policy.budget import Budget, reached
from agentbench.policy.monitors import PolicyMonitor
from agentbench.policy.rule_engine import BREAKERS, Limits
from tests.policy.test_breakers import NEAR_MISSES, TRIPS, Tell, failing_states, refused_patches, same_call, spend
from tests.policy.traces import Story, limits

Pair = tuple[Tell, Tell, Limits, str]
"""What trips, what nearly does, under which limits, and the rule that says so."""


def told(name: str) -> Tell:
    stories: dict[str, Tell] = {one[0]: one[1] for one in TRIPS} | {one[0]: one[1] for one in NEAR_MISSES}
    return stories[name]


def timed_out(*, yes: bool) -> Tell:
    return lambda story: story.call("run", error="timeout" if yes else None, timed_out=yes, took=119, command="make")


def burst(calls: int) -> Tell:
    def tell(story: Story) -> None:
        for number in range(calls):
            story.call("read_file", path=str(number))

    return tell


def prohibited(times: int) -> Tell:
    def tell(story: Story) -> None:
        for number in range(times):
            story.call("run", error="command_denied", command=f"cat ~/.ssh/id_rsa {number}")

    return tell


CAPS = Limits(Budget(cost_micro_usd=1000, tokens=1000), 1000 * 1_000_000)
PAIRS: dict[Callable[..., object], Pair] = {
    pressure.Backpressure: (burst(6), burst(5), limits(burst_calls=5), "burst"),
    breakers.CommandCeiling: (timed_out(yes=True), timed_out(yes=False), limits(), "command_ceiling"),
    breakers.FailedWrites: (refused_patches(5), refused_patches(4, then="x"), limits(), "write_suspension"),
    breakers.RepeatedCalls: (same_call(8), same_call(7), limits(), "repeated_calls"),
    breakers.RepeatedInstalls: (
        told("the same installation four times"),
        told("three installations and another"),
        limits(),
        "repeated_installs",
    ),
    breakers.Oscillation: (failing_states("ABABAB"), failing_states("ABABACDEF"), limits(), "oscillation"),
    breakers.NoProgress: (
        told("sixty calls without a change"),
        told("fifty-nine calls without a change"),
        limits(wall_sec=None),
        "no_progress",
    ),
    breakers.Dominance: (spend(cost=800), spend(cost=799), CAPS, "dominance"),
    Violations: (prohibited(3), prohibited(2), limits(), "violations"),
}


def test_every_breaker_has_its_pair() -> None:
    assert set(PAIRS) == {*BREAKERS, Violations}


@pytest.mark.req("M-03", "M-10", "E-07")
@pytest.mark.parametrize("which", PAIRS, ids=lambda one: one.__name__)
def test_a_breaker_trips_does_not_trip_by_a_hair_and_is_confirmed_either_way(which: Callable[..., object]) -> None:
    trips, misses, held, rule = PAIRS[which]
    for tell, tripped in ((trips, True), (misses, False)):
        story = Story(held, PolicyMonitor())
        tell(story)
        assert (rule in story.rules) is tripped
        story.end()
        assert story.recheck() == []
        if tripped:
            # And none can be taken out of the log unseen.
            told_of = [one for one in story.log if getattr(one.payload, "rule", None) == rule]
            story.log.remove(told_of[0])
            assert story.recheck()


CAP_PAIRS: dict[TerminationCode, tuple[Budget, Tell, Tell]] = {
    TerminationCode.COST_CAP: (Budget(cost_micro_usd=100), spend(cost=100), spend(cost=99)),
    TerminationCode.TOKEN_CAP: (Budget(tokens=100), spend(tokens=100), spend(tokens=99)),
    TerminationCode.TOOL_CALL_CAP: (Budget(tool_calls=7), same_call(7), same_call(6)),
    TerminationCode.MAX_STEPS: (Budget(tool_calls=7, steps_are_calls=True), same_call(7), same_call(6)),
    TerminationCode.FAILED_CYCLE_CAP: (Budget(failed_cycles=3), failing_states("ABC"), failing_states("AB")),
}


@pytest.mark.req("M-03", "M-07", "C-09")
@pytest.mark.parametrize("code", CAP_PAIRS, ids=str)
def test_a_cap_is_reached_exactly(code: TerminationCode) -> None:
    budget, over, under = CAP_PAIRS[code]
    for tell, hit in ((over, True), (under, False)):
        story = Story(limits(budget))
        tell(story)
        found = reached(story.guard.spent, budget)
        assert (found is not None and found.code is code) is hit


@pytest.mark.req("M-06", "M-07")
def test_execution_alone_reaches_a_cap_on_cost() -> None:
    budget = Budget(cost_micro_usd=1000, exec_call_micro=100, exec_hour_micro=3_600_000)
    for calls, hit in ((9, True), (8, False)):
        story = Story(limits(budget, wall_sec=None))
        for number in range(calls):
            story.call("run", took=0.02, command=str(number))
        found = reached(story.guard.spent, budget)
        assert (found is not None) is hit
