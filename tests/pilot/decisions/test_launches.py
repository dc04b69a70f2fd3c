"""Ids of attempts prove the order of launches: an honest order always passes, any other order is found."""

from __future__ import annotations

import random
from collections.abc import Sequence

import pytest

from agentbench.core.ids import make_ulid, split_ulid
from agentbench.pilot.decisions import launches
from agentbench.pilot.decisions.launches import Launch, LaunchIds, id_problems, lines_to_launch
from agentbench.pilot.design.pilot_file import FeasibilityStage, RepeatedStage, Stages
from agentbench.pilot.design.plan import PlanLine, PlannedTask, make_plan

pytestmark = [pytest.mark.component, pytest.mark.req("L-01")]

REGISTRATION = "sha256:" + "1" * 64
TASKS = [PlannedTask(f"task{number}", "all") for number in range(4)]
STAGES = Stages(
    feasibility=FeasibilityStage(tasks_per_stratum=2), limited=RepeatedStage(repeats=1), full=RepeatedStage(repeats=2)
)
LINES = [line for line in make_plan(TASKS, ["a", "b"], STAGES, 20260307) if line.stage == "full"]


def sessions_with_kills(seed: int) -> list[tuple[list[Launch], list[Launch]]]:
    """Launch all lines in sessions that are killed at random: of what was running, any part has no result."""
    chance = random.Random(seed)
    made: list[Launch] = []
    sessions = []
    while waiting := lines_to_launch(LINES, made):
        ids = LaunchIds.after(REGISTRATION, LINES, made, frozen_ms=1_000)
        started = waiting[: chance.randint(1, len(waiting))]
        chosen = [(ids.choose(line.key), line) for line in started]
        session = [Launch(attempt_id, line.key, complete=chance.random() < 0.7) for attempt_id, line in chosen]
        assert ids.launched == len(made) + len(session)
        sessions.append((list(made), session))
        made = sorted([*made, *session], key=lambda launch: launch.attempt_id)
    return sessions


def problems(lines: Sequence[PlanLine], earlier: Sequence[Launch], session: Sequence[Launch]) -> list[str]:
    ordered = sorted(session, key=lambda launch: launch.attempt_id)
    return [message for _, message in id_problems(REGISTRATION, lines, earlier, ordered)]


@pytest.mark.parametrize("seed", range(20))
def test_killed_and_resumed_sessions_are_in_order(seed: int) -> None:
    assert [found for earlier, own in sessions_with_kills(seed) for found in problems(LINES, earlier, own)] == []


@pytest.mark.parametrize("now", [0, 5_000], ids=["clock before the registration", "clock that stands still"])
def test_clock_does_not_change_the_order(monkeypatch: pytest.MonkeyPatch, now: int) -> None:
    monkeypatch.setattr(launches, "now_ms", lambda: now)
    sessions = sessions_with_kills(1)
    assert [found for earlier, own in sessions for found in problems(LINES, earlier, own)] == []
    times = [split_ulid(launch.attempt_id)[0] for _, own in sessions for launch in own]
    assert times == sorted(set(times))
    assert times[0] > 1_000


def test_every_other_order_of_two_neighbours_is_found() -> None:
    earlier, session = sessions_with_kills(3)[0]
    assert len(session) > 2
    for first in range(len(session) - 1):
        times = [split_ulid(launch.attempt_id)[0] for launch in session]
        times[first], times[first + 1] = times[first + 1], times[first]
        swapped = [
            Launch(make_ulid(at, split_ulid(launch.attempt_id)[1]), launch.key, launch.complete)
            for at, launch in zip(times, session, strict=True)
        ]
        (message,) = problems(LINES, earlier, swapped)
        assert "was launched where the plan has" in message


def test_skipped_line_is_found() -> None:
    earlier, session = sessions_with_kills(3)[0]
    (message,) = problems(LINES, earlier, session[1:])
    line = LINES[0]
    assert message.endswith(f"where the plan has {line.method} at {line.task_id}, repeat {line.repeat}")


def test_line_that_has_a_result_is_not_launched_again() -> None:
    done = [Launch(LaunchIds.after(REGISTRATION, LINES, [], 0).choose(line.key), line.key, True) for line in LINES[:1]]
    ids = LaunchIds.after(REGISTRATION, LINES, done, 0)
    again = [Launch(ids.choose(LINES[0].key), LINES[0].key, complete=True)]
    (message,) = problems(LINES, done, again)
    assert message.startswith(f"{LINES[0].method} at {LINES[0].task_id}, repeat {LINES[0].repeat} was launched where")


def test_id_of_another_line_or_registration_is_found() -> None:
    ids = LaunchIds.after("sha256:" + "2" * 64, LINES, [], 0)
    session = [Launch(ids.choose(line.key), line.key, complete=True) for line in LINES[:2]]
    (message,) = problems(LINES, [], session)
    assert message.endswith("its id does not follow from the registration and the plan")
