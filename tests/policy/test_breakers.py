"""Each breaker: a trace that trips it, and one that nearly does."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from agentbench.core.reasons import Outcome, TerminationCode
from agentbench.policy.budget import Budget
from agentbench.policy.rule_engine import Limits
from tests.policy.traces import Story, limits, patched

Tell = Callable[[Story], None]


def same_call(times: int, *, change_after: int | None = None) -> Tell:
    def tell(story: Story) -> None:
        for number in range(times):
            if number == change_after:
                story.edit("x")
            story.call("run", command="make")

    return tell


def different_calls(story: Story) -> None:
    for number in range(30):
        story.call("read_file", path=f"file{number}.py")


def only_generated_files_change(story: Story) -> None:
    for number in range(8):
        story.call("run", patched("x/__pycache__/y.pyc", None, str(number), generated=True), command="make")


def installs(*commands: str) -> Tell:
    def tell(story: Story) -> None:
        for number, command in enumerate(commands):
            story.edit(str(number))
            story.call("run", command=command)

    return tell


def failing_states(states: str, passing: str = "") -> Tell:
    def tell(story: Story) -> None:
        for state in states:
            story.edit(state)
            story.test(Outcome.PASS if state in passing else Outcome.FAIL)

    return tell


def aimless(calls: int = 0, requests: int = 0) -> Tell:
    def tell(story: Story) -> None:
        for number in range(calls):
            story.call("read_file", path=f"{number}")
            story.think(10)
        for _ in range(requests):
            story.ask_model()

    return tell


def back_and_forth(story: Story) -> None:
    """A file that is changed and put back is no new state the second time."""
    for number in range(61):
        story.call("apply_patch", patched("a", "0", "1" if number % 2 else "0"), unified_diff=str(number))


def spend(*, cost: int = 0, tokens: int = 0, sec: float = 0, edit: bool = False, passing: bool = False) -> Tell:
    def tell(story: Story) -> None:
        if edit:
            story.edit("x")
        if passing:
            story.test(Outcome.PASS)
        story.call("run", took=sec, command="sleep")
        story.ask_model(cost=cost, tokens=tokens)

    return tell


def refused_patches(times: int, *, then: str = "") -> Tell:
    def tell(story: Story) -> None:
        for number in range(times):
            story.call("apply_patch", error="patch_invalid", unified_diff=str(number))
        if then:
            story.edit(then)
            story.call("apply_patch", error="patch_invalid", unified_diff="again")

    return tell


CAPS = Limits(Budget(cost_micro_usd=1000, tokens=1000), 1000 * 1_000_000)
C = TerminationCode

TRIPS: list[tuple[str, Tell, Limits, TerminationCode]] = [
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

NEAR_MISSES: list[tuple[str, Tell, Limits]] = [
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


@pytest.mark.req("M-03", "M-10")
@pytest.mark.parametrize("tell,held,code", [one[1:] for one in TRIPS], ids=[one[0] for one in TRIPS])
def test_what_trips_a_breaker(tell: Tell, held: Limits, code: TerminationCode) -> None:
    story = Story(held)
    tell(story)
    assert story.stopped is code
    (stop,) = [trip for trip in story.trips if trip is story.guard.stop]
    assert stop.detail
    assert stop.evidence
    assert all(0 < seq <= len(story.log) for seq in stop.evidence)


@pytest.mark.req("M-03", "M-10")
@pytest.mark.parametrize("tell,held", [one[1:] for one in NEAR_MISSES], ids=[one[0] for one in NEAR_MISSES])
def test_what_nearly_trips_a_breaker(tell: Tell, held: Limits) -> None:
    story = Story(held)
    tell(story)
    assert story.stopped is None
    story.end()
    assert story.recheck() == []


@pytest.mark.req("M-03")
def test_refused_patches_suspend_writing_and_reading_restores_it() -> None:
    story = Story()
    refused_patches(4, then="x")(story)
    assert not story.guard.writes_suspended
    story = Story()
    refused_patches(5)(story)
    assert story.guard.writes_suspended
    assert story.rules == ["write_suspension"]
    story.call("apply_patch", error="write_suspended", unified_diff="again")
    story.call("read_file", error="not_found", path="x")
    story.call("read_file", path="y")
    assert story.guard.writes_suspended
    story.call("search", query="y")
    assert not story.guard.writes_suspended
    assert story.rules == ["write_suspension", "write_restored"]
    story.end()
    assert story.recheck() == []


@pytest.mark.req("M-03", "E-07")
def test_a_command_killed_at_its_ceiling_is_an_alert_with_its_intervention() -> None:
    story = Story()
    story.call("run", error="timeout", timed_out=True, took=120, command="sleep 999")
    assert story.rules == ["command_ceiling"]
    assert [told.payload.type for told in story.log[-2:]] == ["monitor_alert", "intervention"]


def test_programs_that_the_harness_runs_are_not_the_agents_calls() -> None:
    agent, harness = Story(CAPS), Story(CAPS)
    agent.call("agent_command", took=900, command="x")
    for told in agent.log:
        if told.payload.type.startswith("tool_call"):
            harness.write(told.payload.model_copy(update={"call_id": "h1"}))
    assert agent.stopped is TerminationCode.DOMINANCE
    assert harness.stopped is None


@pytest.mark.req("M-09")
def test_bursts_are_slowed_down_ever_more() -> None:
    story = Story(limits(burst_calls=5))
    for number in range(9):
        story.call("read_file", took=0.1, path=str(number))
    waits = [trip.signals["wait_ms"] for trip in story.trips if trip.rule == "burst"]
    assert waits == [250, 500, 1000, 2000]
    story.think(60)
    story.call("read_file", path="late")
    assert len(story.trips) == len(waits)


@pytest.mark.req("M-09")
def test_expensive_commands_without_a_change_are_slowed_down() -> None:
    story = Story(limits(wall_sec=None))
    for _ in range(4):
        story.call("run", took=31, command="make test")
    assert [trip.signals["wait_ms"] for trip in story.trips] == [250, 500]
    story.edit("x")
    story.call("run", took=31, command="make test")
    cheap = Story()
    for _ in range(7):
        cheap.call("run", took=1, command="make test")
    assert len(story.trips) == 2
    assert cheap.trips == []
