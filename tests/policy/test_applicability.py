"""Rules are skipped where the events they need are not seen."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest

from agentbench.core.reasons import Observability, TerminationCode
from agentbench.policy.applicability import not_applicable
from agentbench.policy.budget import Budget
from agentbench.policy.rule_engine import BREAKERS
from agentbench.trace.events import ProcessStarted
from tests.policy.traces import ScriptedTrace, limits

pytestmark = [pytest.mark.synthetic, pytest.mark.req("M-03c")]

PROGRAM = frozenset(not_applicable(Observability.GATEWAY))


def test_every_rule_applies_to_agents_with_tools() -> None:
    assert not_applicable(Observability.TOOLS) == {}


@pytest.mark.parametrize("level", [Observability.GATEWAY, Observability.PROCESS])
def test_skipped_rules_have_a_reason(level: Observability) -> None:
    caps = {"max_steps", "tool_call_cap", "failed_cycle_cap", "dominance.time"}
    known = {rule for breaker in BREAKERS for rule in breaker.rules} | caps
    listed = not_applicable(level, "the kernel is too old")
    assert set(listed) <= known
    assert all(listed.values())


def test_skipped_rule_decides_nothing_and_verifies() -> None:
    for skipped in (frozenset[str](), frozenset({"repeated_calls"})):
        trace = ScriptedTrace(replace(limits(), not_applicable=skipped))
        for _ in range(8):
            trace.call("run", command="ls")
        assert bool(trace.stopped) is not bool(skipped)
        assert trace.recheck() == []


def test_time_share_of_dominance_is_skipped_for_programs() -> None:
    budget = Budget(tokens=1000)
    for skipped in (frozenset[str](), PROGRAM):
        trace = ScriptedTrace(replace(limits(budget, wall_sec=100), not_applicable=skipped))
        trace.think(90)
        trace.call("run", command="ls")
        trace.ask_model(tokens=1)
        assert bool(trace.stopped) is not bool(skipped)


def test_installations_are_not_skipped_where_processes_are_observed() -> None:
    assert "repeated_installs" not in PROGRAM
    assert "too old" in not_applicable(Observability.PROCESS, "too old")["repeated_installs"]


def processes(*argv: str, number: Iterator[int], parent: int = 1) -> list[ProcessStarted]:
    """Return a process for each command line; each is the child of the one before."""
    started = []
    for line in argv:
        count = next(number)
        words = line.split(" ") if not line.startswith("sh -c") else ["sh", "-c", line.removeprefix("sh -c ")]
        started.append(
            ProcessStarted(
                call_id="h1",
                number=count,
                pid=100 + count,
                parent=parent,
                program=f"/bin/{words[0]}",
                argv=words,
                cwd="/",
                elapsed_us=0,
            )
        )
        parent = 100 + count
    return started


@pytest.mark.parametrize(
    "chain",
    [
        ("pip install a",),
        ("sh -c pip install a", "pip install a"),
        ("sh -c timeout 9 pip install a; true", "timeout 9 pip install a", "pip install a"),
        ("env pip install a", "pip install a"),
    ],
)
def test_installation_of_several_processes_counts_once(chain: tuple[str, ...]) -> None:
    trace = ScriptedTrace(replace(limits(), not_applicable=PROGRAM))
    number = iter(range(1, 1000))
    for times in range(1, 5):
        assert trace.stopped is None, times
        for process in processes(*chain, number=number):
            trace.write(process)
    assert trace.stopped is TerminationCode.REPEATED_INSTALLS
    assert trace.rules == ["repeated_installs"]
