"""An attempt is ended once: nothing is decided after the first decision to end it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from agentbench.core.reasons import TerminationCode
from agentbench.policy.breakers import Trip
from agentbench.trace.events import Intervention, LlmResponse, MonitorAlert, Payload
from tests.policy.traces import ScriptedTrace, limits

pytestmark = [pytest.mark.synthetic, pytest.mark.req("E-07b", "M-03b")]


def unsafe(seq: int, payload: Payload) -> tuple[Trip, ...]:
    """Report two violations in every response."""
    if not isinstance(payload, LlmResponse):
        return ()
    stop = Trip("policy", "a", "terminate", "", "terminate", TerminationCode.SAFETY, evidence=(seq,))
    return (stop, replace(stop, rule="b"))


def test_first_decision_is_the_only_one() -> None:
    trace = ScriptedTrace()
    for _ in range(100):
        trace.ask_model()
    assert trace.rules == ["no_progress"]
    assert [event.seq for event in trace.log if isinstance(event.payload, Intervention)] == [len(trace.log) - 20]
    assert trace.recheck() == []


def test_later_violations_are_reported_without_an_intervention() -> None:
    trace = ScriptedTrace(monitor=unsafe)
    trace.ask_model()
    alerts = [event.payload for event in trace.log if isinstance(event.payload, MonitorAlert)]
    assert [(alert.rule, alert.severity) for alert in alerts] == [("a", "terminate"), ("b", "gate")]
    assert [type(event.payload) for event in trace.log].count(Intervention) == 1
    assert trace.recheck() == []


def test_nothing_is_decided_after_a_cap_ended_the_attempt() -> None:
    trace = ScriptedTrace()
    trace.write(Intervention(action="terminate", alert=1, detail=""))
    for _ in range(100):
        trace.ask_model()
    assert trace.trips == []
    assert trace.recheck() == []


def test_runs_of_earlier_versions_are_recomputed_as_they_were_made() -> None:
    trace = ScriptedTrace(replace(limits(), stops_enforced=False))
    for _ in range(90):
        trace.ask_model()
    assert trace.rules == ["no_progress"] * 11
    assert trace.recheck() == []
