"""Recomputed decisions agree with the log, and changed decisions are detected."""

from __future__ import annotations

from typing import Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentbench.core.host_evidence import HostEvidence
from agentbench.core.reasons import Outcome, TerminationCode
from agentbench.policy.budget import Budget
from agentbench.policy.limits import Limits
from agentbench.policy.monitors import PolicyMonitor
from agentbench.trace.events import AcceptanceCheck, Intervention, MonitorAlert, Payload, SandboxLost, Termination
from tests.policy.test_breakers import NEAR_MISSES, TRIPS, Scenario
from tests.policy.traces import ScriptedTrace, TraceEvent, limits

pytestmark = pytest.mark.synthetic


@pytest.mark.req("M-03b")
@pytest.mark.parametrize("scenario,held,code", [trip[1:] for trip in TRIPS], ids=[trip[0] for trip in TRIPS])
def test_recheck_confirms_every_stop(scenario: Scenario, held: Limits, code: TerminationCode) -> None:
    trace = ScriptedTrace(held)
    run_until_stopped(trace, scenario)
    assert trace.recheck() == []


def run_until_stopped(trace: ScriptedTrace, scenario: Scenario) -> None:
    """A stopped session does nothing more."""
    call, model = trace.call, trace.ask_model

    class Stopped(Exception):
        pass

    def limited_call(*args: object, **kwargs: object) -> None:
        call(*args, **kwargs)  # type: ignore[arg-type]
        if trace.stopped:
            raise Stopped

    def limited_model(**kwargs: object) -> None:
        model(**kwargs)  # type: ignore[arg-type]
        if trace.stopped:
            raise Stopped

    trace.call, trace.ask_model = limited_call, limited_model  # type: ignore[method-assign]
    try:
        scenario(trace)
    except Stopped:
        pass
    finally:
        trace.call, trace.ask_model = call, model  # type: ignore[method-assign]
    trace.end()


def ended(code: TerminationCode) -> Termination:
    return Termination(code=code, category=None, rationale="", evidence=[])


def renumbered(log: list[TraceEvent]) -> list[TraceEvent]:
    return [TraceEvent(number, event.payload) for number, event in enumerate(log, start=1)]


@pytest.mark.req("M-03b")
@pytest.mark.parametrize("scenario,held,code", [trip[1:] for trip in TRIPS], ids=[trip[0] for trip in TRIPS])
def test_recheck_detects_a_removed_decision(scenario: Scenario, held: Limits, code: TerminationCode) -> None:
    trace = ScriptedTrace(held)
    run_until_stopped(trace, scenario)
    trace.log = renumbered(
        [event for event in trace.log if not isinstance(event.payload, (MonitorAlert, Intervention))]
    )
    assert trace.recheck()


@pytest.mark.req("M-03b")
def test_recheck_detects_an_invented_decision() -> None:
    trace = ScriptedTrace()
    trace.call("run", command="ls")
    trace.log.append(
        TraceEvent(len(trace.log) + 1, MonitorAlert(monitor="breaker", severity="note", rule="x", detail=""))
    )
    assert "this decision does not follow from the events" in trace.recheck()[0]


@pytest.mark.req("M-03b", "R-10")
@pytest.mark.parametrize("code", [TerminationCode.NO_PROGRESS, TerminationCode.SAFETY, TerminationCode.OSCILLATION])
def test_recheck_detects_a_termination_without_a_decision(code: TerminationCode) -> None:
    trace = ScriptedTrace()
    trace.call("run", command="ls")
    trace.end(code)
    assert "which does not follow from the events" in trace.recheck()[0]


@pytest.mark.req("M-03b")
def test_recheck_detects_calls_after_a_stop() -> None:
    trace = ScriptedTrace()
    for _ in range(9):
        trace.call("run", command="make")
    trace.end(TerminationCode.AGENT_STOPPED)
    problems = "\n".join(trace.recheck())
    assert "tool call after repeated_calls ended the attempt" in problems
    assert "ended as agent_stopped" in problems


@pytest.mark.req("M-07a")
def test_recheck_detects_calls_beyond_a_cap_and_false_caps() -> None:
    trace = ScriptedTrace(limits(Budget(tool_calls=2)))
    for number in range(3):
        trace.call("read_file", path=str(number))
    assert "after tool_call_cap was reached" in trace.recheck()[0]
    early = ScriptedTrace(limits(Budget(tool_calls=20)))
    early.call("run", command="ls")
    early.write(MonitorAlert(monitor="budget", severity="terminate", rule="tool_call_cap", detail=""))
    assert "no reached cap" in early.recheck()[0]


@pytest.mark.req("M-03b")
@pytest.mark.parametrize("elapsed,fine", [(10_000_000, True), (9_990_000, True), (5_000_000, False)])
def test_recheck_compares_the_wall_cap_with_the_measured_time(elapsed: int, fine: bool) -> None:
    trace = ScriptedTrace(limits(wall_sec=10))
    signals = {"elapsed_us": elapsed, "cap_us": 10_000_000}
    trace.write(MonitorAlert(monitor="budget", severity="terminate", rule="wall_cap", detail="", signals=signals))
    assert (trace.recheck() == []) is fine


@pytest.mark.req("R-13")
def test_recheck_accepts_a_log_cut_before_a_decision() -> None:
    trace = ScriptedTrace()
    for _ in range(8):
        trace.call("run", command="make")
    assert [event.payload.type for event in trace.log[-2:]] == ["monitor_alert", "intervention"]
    for lost in (1, 2):
        cut = ScriptedTrace(log=trace.log[:-lost])
        cut.end(TerminationCode.INTERRUPTED)
        assert cut.recheck() == []
        cut.log[-1] = TraceEvent(cut.log[-1].seq, ended(TerminationCode.REPEATED_CALLS))
        assert cut.recheck() != []


@pytest.mark.req("M-03b")
@pytest.mark.parametrize("scenario,held,code", [trip[1:] for trip in TRIPS], ids=[trip[0] for trip in TRIPS])
def test_recheck_ignores_the_wording_of_explanations(scenario: Scenario, held: Limits, code: TerminationCode) -> None:
    """Words are not decisions: a later version may explain the same decision differently, and old runs must still verify.

    A word changed in a recorded log is found by its hash chain, not here.
    """
    trace = ScriptedTrace(held)
    run_until_stopped(trace, scenario)
    trace.log = [
        TraceEvent(event.seq, event.payload.model_copy(update={"detail": "in other words"}))
        if isinstance(event.payload, (MonitorAlert, Intervention))
        else event
        for event in trace.log
    ]
    assert trace.recheck() == []


@pytest.mark.req("M-03b")
@pytest.mark.parametrize(
    "kind, change",
    [
        (MonitorAlert, {"rule": "oscillation"}),
        (MonitorAlert, {"monitor": "policy"}),
        (MonitorAlert, {"severity": "note"}),
        (MonitorAlert, {"signals": {"calls": 9, "threshold": 8}}),
        (MonitorAlert, {"evidence": [1]}),
        (MonitorAlert, {"format": "code"}),
        (MonitorAlert, {"stage": "write"}),
        (Intervention, {"action": "deny"}),
        (Intervention, {"alert": 1}),
        (Termination, {"code": TerminationCode.OSCILLATION}),
    ],
    ids=lambda value: value.__name__ if isinstance(value, type) else next(iter(value)),
)
def test_recheck_detects_a_changed_decision(kind: type[Payload], change: dict[str, object]) -> None:
    trace = ScriptedTrace()
    for _ in range(8):
        trace.call("run", command="make")
    trace.end(TerminationCode.REPEATED_CALLS)
    assert trace.recheck() == []
    trace.log = [
        TraceEvent(event.seq, event.payload.model_copy(update=change)) if isinstance(event.payload, kind) else event
        for event in trace.log
    ]
    assert trace.recheck()


actions = st.one_of(
    st.tuples(st.just("call"), st.sampled_from(["make", "pip install a", "ls", "sudo ls", "rm -rf /", "curl x | sh"])),
    st.tuples(st.just("edit"), st.sampled_from("ABC")),
    st.tuples(st.just("test"), st.sampled_from([Outcome.PASS, Outcome.FAIL])),
    st.tuples(st.just("ask"), st.integers(0, 300)),
    st.tuples(st.just("bad patch"), st.just("")),
    st.tuples(st.just("read"), st.sampled_from("ab")),
)


@pytest.mark.req("M-03b")
@given(st.lists(actions, max_size=60))
def test_recheck_confirms_any_sequence_of_actions(script: list[tuple[str, object]]) -> None:
    held = limits(Budget(cost_micro_usd=4000), wall_sec=60, burst_calls=10, no_progress_calls=12, identical_calls=4)
    trace = ScriptedTrace(held, PolicyMonitor())
    for what, value in script:
        if trace.stopped:
            break
        match what:
            case "call":
                trace.call("run", command=str(value))
            case "edit":
                trace.edit(str(value))
            case "test":
                trace.test(Outcome(str(value)))
            case "ask" if isinstance(value, int):
                trace.ask_model(cost=value)
            case "bad patch":
                trace.call("apply_patch", error="patch_invalid", unified_diff="x")
            case _:
                trace.call("read_file", path=str(value))
        if trace.engine.spent.cost_micro_usd >= 4000:
            break
    trace.end()
    assert trace.recheck() == []


@pytest.mark.req("M-03b", "M-10")
def test_recheck_confirms_near_misses() -> None:
    for _, scenario, held in NEAR_MISSES:
        trace = ScriptedTrace(held)
        scenario(trace)
        trace.end()
        assert trace.recheck() == []


HOST_TROUBLE = HostEvidence(manager="gone")


def lost(blame: Literal["candidate", "host"], host: HostEvidence, phase: Literal["agent", "grading"]) -> SandboxLost:
    return SandboxLost(phase=phase, sandbox="s", why="it ended", host=host, blame=blame)


def decided(outcome: Outcome) -> AcceptanceCheck:
    return AcceptanceCheck(
        check_id="unit", layer="unit", mandatory=True, outcome=outcome, why="", command="pytest", started_at="",
        duration_us=0, ceiling_us=0, assurance="per_test", stdout_sha256="", stderr_sha256="",
    )  # fmt: skip


@pytest.mark.req("M-03b", "G-14")
@pytest.mark.parametrize(
    "payloads, problem",
    [
        ([lost("candidate", HostEvidence(), "agent"), ended(TerminationCode.SAFETY)], ""),
        ([lost("host", HOST_TROUBLE, "agent"), ended(TerminationCode.SANDBOX_ERROR)], ""),
        ([ended(TerminationCode.SAFETY)], "does not follow"),
        ([lost("host", HOST_TROUBLE, "agent"), ended(TerminationCode.SAFETY)], "does not follow"),
        ([lost("candidate", HostEvidence(), "agent"), ended(TerminationCode.SANDBOX_ERROR)], "explains no loss"),
        ([lost("host", HostEvidence(), "agent")], "recomputed as candidate"),
        ([lost("candidate", HOST_TROUBLE, "agent")], "recomputed as host"),
        ([lost("candidate", HostEvidence(), "grading"), decided(Outcome.FAIL)], ""),
        ([lost("candidate", HostEvidence(), "grading"), decided(Outcome.ERROR)], "broke its sandbox"),
        ([lost("host", HOST_TROUBLE, "grading"), decided(Outcome.ERROR)], ""),
        ([lost("host", HOST_TROUBLE, "grading"), decided(Outcome.PASS)], ""),
    ],
)
def test_blame_for_lost_sandboxes_is_recomputed(payloads: list[Payload], problem: str) -> None:
    trace = ScriptedTrace()
    trace.call("run", command="ls")
    trace.log += [TraceEvent(len(trace.log) + number, payload) for number, payload in enumerate(payloads, start=1)]
    problems = trace.recheck()
    assert len(problems) == bool(problem)
    assert problem in "".join(problems)
