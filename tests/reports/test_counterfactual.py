"""Active time of a session, read from its log."""

from __future__ import annotations

from typing import Any

import pytest

from agentbench.core.reasons import TerminationCode
from agentbench.reports.counterfactual import active_times
from agentbench.trace.chain import Event
from agentbench.trace.events import (
    Briefing,
    Intervention,
    OperatorDecision,
    Payload,
    ResourceSample,
    Termination,
    ToolCallStarted,
)

pytestmark = pytest.mark.synthetic

BRIEFING = Briefing(text="fix it", sha256="", parts={})
SAMPLE = ResourceSample(phase="agent")
PAUSE = Intervention(action="pause", alert=1, detail="")
DECISION = OperatorDecision(decision="stop", operator="deadline rule", justification="")
END = Termination(code=TerminationCode.OPERATOR_ABORT, category=None, rationale="", evidence=[])


def call(elapsed: float) -> ToolCallStarted:
    return ToolCallStarted(call_id="c1", tool="run", arguments={}, elapsed_us=int(elapsed * 1e6))


def log(*events: tuple[float, Payload]) -> list[Event]:
    common: dict[str, Any] = {"actor": "harness", "prev": "", "hash": ""}
    return [
        Event(seq=seq, t=int(second * 1e6), type=payload.type, payload=payload, **common)
        for seq, (second, payload) in enumerate(events, start=1)
    ]


def seconds(*events: tuple[float, Payload], at_end: float = 0.0) -> list[float]:
    return [time / 1e6 for time in active_times(log(*events), at_end)]


@pytest.mark.req("A-09b")
def test_waiting_for_an_operator_is_not_active_time() -> None:
    events = ((5, BRIEFING), (6, call(1)), (6, PAUSE), (150, SAMPLE), (306, DECISION), (308, SAMPLE), (309, END))
    assert seconds(*events) == [0, 1, 1, 1, 1, 3, 4]


@pytest.mark.req("A-09b")
def test_model_outage_before_a_call_is_not_active_time() -> None:
    # The clock of the session stood still for 20 s of the 22 s before the second call.
    events = ((0, BRIEFING), (1, call(1)), (9, SAMPLE), (19, SAMPLE), (23, call(3)), (24, SAMPLE))
    assert seconds(*events) == [0, 1, 3, 3, 3, 4]


@pytest.mark.req("A-09b")
def test_model_outage_in_the_last_call_is_not_active_time() -> None:
    events = ((0, BRIEFING), (1, call(1)), (9, SAMPLE), (13, SAMPLE), (14, END))
    assert seconds(*events, at_end=1.5) == [0, 1, 1.5, 1.5, 1.5]
    assert seconds(*events) == [0, 1, 9, 13, 14]
