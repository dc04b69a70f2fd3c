"""Each breaker with a trace that trips it and a near miss."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from agentbench.core.reasons import Outcome, TerminationCode
from agentbench.policy.budget import Budget, CostCap
from agentbench.policy.limits import Limits
from tests.policy.traces import ScriptedTrace, limits, patched

pytestmark = pytest.mark.synthetic

Scenario = Callable[[ScriptedTrace], None]


def same_call(times: int, *, change_after: int | None = None) -> Scenario:
    def scenario(trace: ScriptedTrace) -> None:
        for number in range(times):
            if number == change_after:
                trace.edit("x")
            trace.call("run", command="make")

    return scenario


def different_calls(trace: ScriptedTrace) -> None:
    for number in range(30):
        trace.call("read_file", path=f"file{number}.py")


def only_generated_files_change(trace: ScriptedTrace) -> None:
    for number in range(8):
        trace.call("run", patched("x/__pycache__/y.pyc", None, str(number), generated=True), command="make")


def installs(*commands: str) -> Scenario:
    def scenario(trace: ScriptedTrace) -> None:
        for number, command in enumerate(commands):
            trace.edit(str(number))
            trace.call("run", command=command)

    return scenario


def failing_states(states: str, passing: str = "") -> Scenario:
    def scenario(trace: ScriptedTrace) -> None:
        for state in states:
            trace.edit(state)
            trace.test(Outcome.PASS if state in passing else Outcome.FAIL)

    return scenario


def aimless(calls: int = 0, requests: int = 0) -> Scenario:
    def scenario(trace: ScriptedTrace) -> None:
        for number in range(calls):
            trace.call("read_file", path=f"{number}")
            trace.think(10)
        for _ in range(requests):
            trace.ask_model()

    return scenario


def back_and_forth(trace: ScriptedTrace) -> None:
    """Change a file and restore it: after the first time this is not a new state."""
    for number in range(61):
        trace.call("apply_patch", patched("a", "0", "1" if number % 2 else "0"), unified_diff=str(number))


def spend(*, cost: int = 0, tokens: int = 0, sec: float = 0, edit: bool = False, passing: bool = False) -> Scenario:
    def scenario(trace: ScriptedTrace) -> None:
        if edit:
            trace.edit("x")
        if passing:
            trace.test(Outcome.PASS)
        trace.call("run", took=sec, command="sleep")
        trace.ask_model(cost=cost, tokens=tokens)

    return scenario


def refused_patches(times: int, *, then: str = "") -> Scenario:
    def scenario(trace: ScriptedTrace) -> None:
        for number in range(times):
            trace.call("apply_patch", error="patch_invalid", unified_diff=str(number))
        if then:
            trace.edit(then)
            trace.call("apply_patch", error="patch_invalid", unified_diff="again")

    return scenario


CAPS = Limits(Budget(cost_micro_usd=1000, tokens=1000), 1000 * 1_000_000)
C = TerminationCode

TRIPS: list[tuple[str, Scenario, Limits, TerminationCode]] = [
    ("the same call eight times", same_call(8), limits(), C.REPEATED_CALLS),
    ("generated files are no change", only_generated_files_change, limits(), C.REPEATED_CALLS),
    ("the same installation four times", installs(*["pip install foo"] * 4), limits(), C.REPEATED_INSTALLS),
    (
        "the same installation in other words",
        installs("pip install foo", "cd x && pip  install foo", "A=1 pip install 'foo'", "sudo pip install foo"),
        limits(),
        C.REPEATED_INSTALLS,
    ),
    ("too many installations", installs(*[f"npm i p{n}" for n in range(26)]), limits(), C.REPEATED_INSTALLS),
    (
        "more installations than the contract allows",
        installs("uv sync", "poetry lock", "cargo update"),
        limits(max_installs=2),
        C.REPEATED_INSTALLS,
    ),
    ("none allowed", installs("pip install foo"), limits(max_installs=0), C.REPEATED_INSTALLS),
    ("two failing states by turns", failing_states("ABABAB"), limits(), C.OSCILLATION),
    ("by turns after something else", failing_states("CDABABAB"), limits(), C.OSCILLATION),
    ("sixty calls without a change", aimless(calls=60), limits(wall_sec=None), C.NO_PROGRESS),
    ("eighty requests without a change", aimless(requests=80), limits(wall_sec=None), C.NO_PROGRESS),
    ("changes that lead nowhere new", back_and_forth, limits(wall_sec=None, burst_calls=999), C.NO_PROGRESS),
    ("most of the money gone", spend(cost=800), CAPS, C.DOMINANCE),
    ("most of the tokens gone", spend(tokens=801), CAPS, C.DOMINANCE),
    ("most of the time gone", spend(sec=800), CAPS, C.DOMINANCE),
]

NEAR_MISSES: list[tuple[str, Scenario, Limits]] = [
    ("the same call seven times", same_call(7), limits()),
    ("the same call with a change in between", same_call(14, change_after=7), limits()),
    ("different calls", different_calls, limits()),
    ("three installations and another", installs(*["pip install foo"] * 3, "pip install bar"), limits()),
    ("listing is not installing", installs(*["pip list"] * 6, "pip show foo", "npm run lint"), limits()),
    ("as many installations as allowed", installs("uv sync", "poetry lock"), limits(max_installs=2)),
    ("oscillation that is left in time", failing_states("ABABACDEF"), limits()),
    ("by turns, but one of them passes", failing_states("ABABABAB", passing="B"), limits()),
    ("three states in turn", failing_states("ABCABCABCABC"), limits()),
    ("the same failing state again and again", failing_states("AAAAAA"), limits()),
    ("fifty-nine calls without a change", aimless(calls=59), limits(wall_sec=None)),
    ("seventy-nine requests", aimless(requests=79), limits(wall_sec=None)),
    ("money nearly gone", spend(cost=799), CAPS),
    ("money gone, and there is a change", spend(cost=900, edit=True), CAPS),
    ("money gone, and a test passed", spend(cost=900, passing=True), CAPS),
    ("no caps at all", spend(cost=10**9, tokens=10**9, sec=10**6), limits(wall_sec=None)),
]


@pytest.mark.req("M-03a", "M-10")
@pytest.mark.parametrize("scenario,held,code", [trip[1:] for trip in TRIPS], ids=[trip[0] for trip in TRIPS])
def test_breaker_trips(scenario: Scenario, held: Limits, code: TerminationCode) -> None:
    trace = ScriptedTrace(held)
    scenario(trace)
    assert trace.stopped is code
    (stop,) = [trip for trip in trace.trips if trip is trace.engine.stop]
    assert stop.detail
    assert stop.evidence
    assert all(0 < seq <= len(trace.log) for seq in stop.evidence)


@pytest.mark.req("M-03a", "M-10")
@pytest.mark.parametrize("scenario,held", [miss[1:] for miss in NEAR_MISSES], ids=[miss[0] for miss in NEAR_MISSES])
def test_breaker_does_not_trip_on_a_near_miss(scenario: Scenario, held: Limits) -> None:
    trace = ScriptedTrace(held)
    scenario(trace)
    assert trace.stopped is None
    trace.end()
    assert trace.recheck() == []


@pytest.mark.req("M-03a")
def test_rejected_patches_suspend_writing_until_reads_succeed() -> None:
    trace = ScriptedTrace()
    refused_patches(4, then="x")(trace)
    assert not trace.engine.writes_suspended
    trace = ScriptedTrace()
    refused_patches(5)(trace)
    assert trace.engine.writes_suspended
    assert trace.rules == ["write_suspension"]
    trace.call("apply_patch", error="write_suspended", unified_diff="again")
    trace.call("read_file", error="not_found", path="x")
    trace.call("read_file", path="y")
    assert trace.engine.writes_suspended
    trace.call("search", query="y")
    assert not trace.engine.writes_suspended
    assert trace.rules == ["write_suspension", "write_restored"]
    trace.end()
    assert trace.recheck() == []


@pytest.mark.req("M-03a", "E-07a")
def test_command_killed_at_its_time_limit_is_logged() -> None:
    trace = ScriptedTrace()
    trace.call("run", error="timeout", timed_out=True, took=120, command="sleep 999")
    assert trace.rules == ["command_ceiling"]
    assert [event.payload.type for event in trace.log[-2:]] == ["monitor_alert", "intervention"]


def test_calls_of_the_harness_do_not_count() -> None:
    agent, harness = ScriptedTrace(CAPS), ScriptedTrace(CAPS)
    agent.call("agent_command", took=900, command="x")
    for event in agent.log:
        if event.payload.type.startswith("tool_call"):
            harness.write(event.payload.model_copy(update={"call_id": "h1"}))
    assert agent.stopped is TerminationCode.DOMINANCE
    assert harness.stopped is None


@pytest.mark.req("M-09")
def test_bursts_get_growing_delays() -> None:
    trace = ScriptedTrace(limits(burst_calls=5))
    for number in range(9):
        trace.call("read_file", took=0.1, path=str(number))
    waits = [trip.signals["wait_ms"] for trip in trace.trips if trip.rule == "burst"]
    assert waits == [250, 500, 1000, 2000]
    trace.think(60)
    trace.call("read_file", path="late")
    assert len(trace.trips) == len(waits)


@pytest.mark.req("M-09")
def test_repeated_expensive_commands_are_delayed() -> None:
    trace = ScriptedTrace(limits(wall_sec=None))
    for _ in range(4):
        trace.call("run", took=31, command="make test")
    assert [trip.signals["wait_ms"] for trip in trace.trips] == [250, 500]
    trace.edit("x")
    trace.call("run", took=31, command="make test")
    cheap = ScriptedTrace()
    for _ in range(7):
        cheap.call("run", took=1, command="make test")
    assert len(trace.trips) == 2
    assert cheap.trips == []


def test_dominance_names_the_part_of_the_cost_cap_that_is_reserved() -> None:
    held = limits(Budget(cost_micro_usd=300_000))
    for cost, reserved in ((CostCap(1_000_000, 700_000), True), (CostCap(300_000), False)):
        trace = ScriptedTrace(replace(held, cost=cost))
        spend(cost=240_000)(trace)
        (trip,) = trace.trips
        assert trip.detail.startswith("80% of the cost budget is used without a change")
        stated = "; cost cap: 0.24 of 1.00 usd used, 0.70 reserved for acceptance"
        assert trip.detail.endswith(stated) == reserved
