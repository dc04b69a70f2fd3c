"""Acts after a decision to end an attempt are found; what was in progress may finish."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentbench.core.reasons import TerminationCode
from agentbench.policy.after_stop import KILL_US, MAX_SCANS, acts_after_stop
from agentbench.trace.chain import GENESIS, Event
from agentbench.trace.events import (
    Briefing,
    Excerpt,
    Intervention,
    LlmRequest,
    LlmResponse,
    Payload,
    ProcessStarted,
    Termination,
    ToolCallFinished,
    ToolCallStarted,
    WorkspaceMutated,
)

pytestmark = pytest.mark.synthetic

STOP = Intervention(action="terminate", alert=1, detail="")
BRIEFING = Briefing(text="do it", sha256="0" * 64, parts={})
END = Termination(code=TerminationCode.NO_PROGRESS, category=None, rationale="", evidence=[])


def started(call: str) -> Payload:
    return ToolCallStarted(call_id=call, tool="run", arguments={})


def finished(call: str) -> Payload:
    return ToolCallFinished(call_id=call, tool="run", ok=True, duration_us=1)


def asked(request: str) -> Payload:
    return LlmRequest(
        request_id=request, provider="p", model="m", parameters={}, messages=Excerpt(), conversation_index=0
    )


def answered(request: str) -> Payload:
    return LlmResponse(
        request_id=request,
        status="ok",
        content=Excerpt(),
        prompt_tokens=1,
        completion_tokens=1,
        cached_tokens=0,
        cost_micro_usd=0,
        duration_us=1,
        conversation_index=1,
    )


def changed(call: str) -> Payload:
    return WorkspaceMutated(call_id=call, files=[])


def process(call: str) -> Payload:
    return ProcessStarted(
        call_id=call, number=1, pid=1, parent=0, program="/bin/sh", argv=["sh"], cwd="/", elapsed_us=0
    )


def log(*payloads: Payload, step_us: int = 1) -> list[Event]:
    return [
        Event(seq, seq * step_us, payload.type, "harness", payload, GENESIS, GENESIS)
        for seq, payload in enumerate(payloads, start=1)
    ]


@pytest.mark.req("E-07b")
@pytest.mark.parametrize(
    "act",
    [asked("m2"), started("c2"), changed("c9"), process("h9"), answered("m9"), finished("c9"), STOP],
    ids=lambda payload: payload.type,
)
def test_act_after_the_end_is_named(act: Payload) -> None:
    (problem,) = acts_after_stop(log(BRIEFING, started("h1"), asked("m1"), STOP, act, END))
    assert problem.startswith("event 5: ")
    assert problem.endswith("after event 4 ended the attempt")


@pytest.mark.req("E-07b")
def test_what_was_in_progress_may_finish() -> None:
    rest = (process("h1"), changed("h1"), answered("m1"), changed("h1"), finished("h1"))
    assert acts_after_stop(log(BRIEFING, started("h1"), asked("m1"), STOP, *rest, END)) == []


@pytest.mark.req("E-07b")
@pytest.mark.parametrize(
    "act", [started("c2"), changed("h1"), process("h1"), asked("m1")], ids=lambda payload: payload.type
)
@pytest.mark.parametrize("stop", [(), (STOP,)], ids=["ended", "stopped"])
def test_act_after_the_termination_is_named(act: Payload, stop: tuple[Payload, ...]) -> None:
    (problem,) = acts_after_stop(log(BRIEFING, started("h1"), *stop, finished("h1"), END, act))
    assert problem.startswith(f"event {5 + len(stop)}: {act.type} after the end of the agent")


@pytest.mark.req("E-07b")
def test_program_that_is_not_killed_is_found() -> None:
    scans = [changed("h1")] * (MAX_SCANS + 1)
    assert len(acts_after_stop(log(BRIEFING, started("h1"), STOP, *scans, END))) == 1
    late = log(BRIEFING, started("h1"), STOP, process("h1"), END, step_us=KILL_US + 1)
    assert acts_after_stop(late) == ["event 4: process 1 after event 3 ended the attempt"]


EVENTS = st.sampled_from(
    [
        *(make(name) for make in (started, finished, changed, process) for name in ("c1", "h1")),
        *(make(name) for make in (asked, answered) for name in ("m1", "m2")),
        STOP,
    ]
)


@pytest.mark.req("E-07b")
@given(st.lists(EVENTS, max_size=14), st.lists(EVENTS, max_size=14))
def test_random_logs_are_clean_exactly_without_new_acts(before: list[Payload], after: list[Payload]) -> None:
    """Compare with a direct reading of the rule, for any order of events."""
    before = [payload for payload in before if payload is not STOP]
    calls = [at for at in ("c1", "h1") if _open(before, started(at), finished(at))]
    requests = [at for at in ("m1", "m2") if _open(before, asked(at), answered(at))]
    clean, scans = True, 0
    for payload in after:
        match payload:
            case LlmResponse():
                clean &= payload.request_id in requests
                requests = [at for at in requests if at != payload.request_id]
            case ToolCallFinished():
                clean &= payload.call_id in calls
                calls = [at for at in calls if at != payload.call_id]
            case WorkspaceMutated():
                scans += 1
                clean &= payload.call_id in calls and scans <= MAX_SCANS
            case ProcessStarted():
                clean &= payload.call_id in calls
            case _:
                clean = False
        if not clean:
            break
    problems = acts_after_stop(log(BRIEFING, *before, STOP, *after, END))
    assert (problems == []) == clean
    assert acts_after_stop(log(BRIEFING, *before, END)) == []


def _open(events: list[Payload], start: Payload, end: Payload) -> bool:
    """Return whether the last of both events is the start."""
    relevant = [payload for payload in events if payload in (start, end)]
    return bool(relevant) and relevant[-1] == start
