"""Decisions made again from the log agree with it; whatever is changed about a decision is found."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentbench.core.reasons import Outcome, TerminationCode
from agentbench.policy.budget import Budget
from agentbench.policy.monitors import PolicyMonitor
from agentbench.policy.rule_engine import Limits
from agentbench.trace.events import Intervention, MonitorAlert, Payload, Termination
from tests.policy.test_breakers import NEAR_MISSES, TRIPS, Tell
from tests.policy.traces import Story, Told, limits


@pytest.mark.req("M-03")
@pytest.mark.parametrize("tell,held,code", [one[1:] for one in TRIPS], ids=[one[0] for one in TRIPS])
def test_every_stop_is_confirmed_by_its_log(tell: Tell, held: Limits, code: TerminationCode) -> None:
    story = Story(held)
    tell_until_stopped(story, tell)
    assert story.recheck() == []


def tell_until_stopped(story: Story, tell: Tell) -> None:
    """A session does nothing more once it is stopped."""
    call, model = story.call, story.ask_model

    class Stopped(Exception):
        pass

    def guarded(*args: object, **kwargs: object) -> None:
        call(*args, **kwargs)  # type: ignore[arg-type]
        if story.stopped:
            raise Stopped

    def asked(**kwargs: object) -> None:
        model(**kwargs)  # type: ignore[arg-type]
        if story.stopped:
            raise Stopped

    story.call, story.ask_model = guarded, asked  # type: ignore[method-assign]
    try:
        tell(story)
    except Stopped:
        pass
    finally:
        story.call, story.ask_model = call, model  # type: ignore[method-assign]
    story.end()


def ended(code: TerminationCode) -> Termination:
    return Termination(code=code, category=None, rationale="", evidence=[])


def renumbered(log: list[Told]) -> list[Told]:
    return [Told(number, told.payload) for number, told in enumerate(log, start=1)]


@pytest.mark.req("M-03")
@pytest.mark.parametrize("tell,held,code", [one[1:] for one in TRIPS], ids=[one[0] for one in TRIPS])
def test_a_decision_that_is_taken_out_of_a_log_is_missed(tell: Tell, held: Limits, code: TerminationCode) -> None:
    story = Story(held)
    tell_until_stopped(story, tell)
    story.log = renumbered([told for told in story.log if not isinstance(told.payload, (MonitorAlert, Intervention))])
    assert story.recheck()


@pytest.mark.req("M-03")
def test_a_decision_that_no_event_gives_is_found() -> None:
    story = Story()
    story.call("run", command="ls")
    story.log.append(Told(len(story.log) + 1, MonitorAlert(monitor="breaker", severity="note", rule="x", detail="")))
    assert "no event gives this decision" in story.recheck()[0]


@pytest.mark.req("M-03", "R-10")
@pytest.mark.parametrize("code", [TerminationCode.NO_PROGRESS, TerminationCode.SAFETY, TerminationCode.OSCILLATION])
def test_an_end_that_no_breaker_made_is_found(code: TerminationCode) -> None:
    story = Story()
    story.call("run", command="ls")
    story.end(code)
    assert "no event gives that decision" in story.recheck()[0]


@pytest.mark.req("M-03")
def test_an_agent_that_went_on_after_its_stop_is_found() -> None:
    story = Story()
    for _ in range(9):
        story.call("run", command="make")
    story.end(TerminationCode.AGENT_STOPPED)
    problems = "\n".join(story.recheck())
    assert "a tool call although repeated_calls had ended the run" in problems
    assert "ended as agent_stopped" in problems


@pytest.mark.req("M-07")
def test_a_call_beyond_a_cap_and_a_cap_that_was_not_reached_are_found() -> None:
    story = Story(limits(Budget(tool_calls=2)))
    for number in range(3):
        story.call("read_file", path=str(number))
    assert "although tool_call_cap was reached" in story.recheck()[0]
    early = Story(limits(Budget(tool_calls=20)))
    early.call("run", command="ls")
    early.write(MonitorAlert(monitor="budget", severity="terminate", rule="tool_call_cap", detail=""))
    assert "no cap is reached" in early.recheck()[0]


@pytest.mark.req("M-03")
@pytest.mark.parametrize("elapsed,fine", [(10_000_000, True), (9_990_000, True), (5_000_000, False)])
def test_the_wall_clock_is_held_against_what_was_measured(elapsed: int, fine: bool) -> None:
    story = Story(limits(wall_sec=10))
    signals = {"elapsed_us": elapsed, "cap_us": 10_000_000}
    story.write(MonitorAlert(monitor="budget", severity="terminate", rule="wall_cap", detail="", signals=signals))
    assert (story.recheck() == []) is fine


@pytest.mark.req("R-13")
def test_a_log_cut_between_an_event_and_its_decision_is_no_contradiction() -> None:
    story = Story()
    for _ in range(8):
        story.call("run", command="make")
    assert [told.payload.type for told in story.log[-2:]] == ["monitor_alert", "intervention"]
    for lost in (1, 2):
        cut = Story(log=story.log[:-lost])
        cut.end(TerminationCode.INTERRUPTED)
        assert cut.recheck() == []
        cut.log[-1] = Told(cut.log[-1].seq, ended(TerminationCode.REPEATED_CALLS))
        assert cut.recheck() != []


@pytest.mark.req("M-03")
@pytest.mark.parametrize("tell,held,code", [one[1:] for one in TRIPS], ids=[one[0] for one in TRIPS])
def test_reworded_detail_is_no_difference(tell: Tell, held: Limits, code: TerminationCode) -> None:
    """Words are not decisions: a later version may explain the same decision differently, and old runs must still verify.

    A word changed in a recorded log is found by its hash chain, not here.
    """
    story = Story(held)
    tell_until_stopped(story, tell)
    story.log = [
        Told(told.seq, told.payload.model_copy(update={"detail": "in other words"}))
        if isinstance(told.payload, (MonitorAlert, Intervention))
        else told
        for told in story.log
    ]
    assert story.recheck() == []


@pytest.mark.req("M-03")
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
def test_changed_decision_is_found(kind: type[Payload], change: dict[str, object]) -> None:
    story = Story()
    for _ in range(8):
        story.call("run", command="make")
    story.end(TerminationCode.REPEATED_CALLS)
    assert story.recheck() == []
    story.log = [
        Told(told.seq, told.payload.model_copy(update=change)) if isinstance(told.payload, kind) else told
        for told in story.log
    ]
    assert story.recheck()


actions = st.one_of(
    st.tuples(st.just("call"), st.sampled_from(["make", "pip install a", "ls", "sudo ls", "rm -rf /", "curl x | sh"])),
    st.tuples(st.just("edit"), st.sampled_from("ABC")),
    st.tuples(st.just("test"), st.sampled_from([Outcome.PASS, Outcome.FAIL])),
    st.tuples(st.just("ask"), st.integers(0, 300)),
    st.tuples(st.just("bad patch"), st.just("")),
    st.tuples(st.just("read"), st.sampled_from("ab")),
)


@pytest.mark.req("M-03")
@given(st.lists(actions, max_size=60))
def test_whatever_an_agent_does_every_decision_is_confirmed(script: list[tuple[str, object]]) -> None:
    held = limits(Budget(cost_micro_usd=4000), wall_sec=60, burst_calls=10, no_progress_calls=12, identical_calls=4)
    story = Story(held, PolicyMonitor())
    for what, value in script:
        if story.stopped:
            break
        match what:
            case "call":
                story.call("run", command=str(value))
            case "edit":
                story.edit(str(value))
            case "test":
                story.test(Outcome(str(value)))
            case "ask" if isinstance(value, int):
                story.ask_model(cost=value)
            case "bad patch":
                story.call("apply_patch", error="patch_invalid", unified_diff="x")
            case _:
                story.call("read_file", path=str(value))
        if story.guard.spent.cost_micro_usd >= 4000:
            break
    story.end()
    assert story.recheck() == []


@pytest.mark.req("M-03", "M-10")
def test_near_misses_leave_logs_that_agree_too() -> None:
    for _, tell, held in NEAR_MISSES:
        story = Story(held)
        tell(story)
        story.end()
        assert story.recheck() == []
