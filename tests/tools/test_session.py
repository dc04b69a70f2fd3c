"""The session enforces rules and caps, and logs everything."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pydantic import JsonValue

from agentbench.contract.schema import DenyCommand, Task
from agentbench.core.command import Command, Completed
from agentbench.core.errors import InputError, Interrupted, SandboxError
from agentbench.core.ids import new_ulid
from agentbench.core.reasons import TerminationCode
from agentbench.policy.budget import Budget
from agentbench.policy.limits import Limits
from agentbench.policy.monitor_rules import ContractRules
from agentbench.policy.monitors import MONITORS, PolicyMonitor
from agentbench.policy.recheck import recheck
from agentbench.policy.rule_engine import ENGINE_MONITORS, RuleEngine
from agentbench.policy.thresholds import published_thresholds
from agentbench.tools.event_recorder import EventRecorder
from agentbench.tools.operator import Answer, Question
from agentbench.tools.program_run import AgentProgram
from agentbench.tools.rules import Caps, Rules, rules_for
from agentbench.tools.session import BriefingText, Session
from agentbench.tools.session_limits import RemainingBudget, SessionEnded, SessionEnvironment, SessionLog
from agentbench.trace import events
from agentbench.trace.events import (
    Briefing,
    Excerpt,
    Intervention,
    MonitorAlert,
    NetworkRequest,
    OperatorDecision,
    ToolCallFinished,
    ToolCallStarted,
)
from agentbench.trace.log import EventLog, read_events
from agentbench.trace.verify import verify_log
from tests.tools.conftest import OpenSession
from tests.tools.recorded_session import Clock, FolderSandbox, completed, fill

pytestmark = pytest.mark.component

TASK = Task.model_validate({"id": "t", "suite": "s", "repo": "none"})


def with_calls(count: int, *, steps_are_calls: bool = True) -> Rules:
    return Rules(caps=Caps(budget=Budget(tool_calls=count, steps_are_calls=steps_are_calls)))


@pytest.mark.req("R-03")
def test_briefing_is_logged_verbatim_first(open_session: OpenSession) -> None:
    recorded = open_session()
    recorded.session.run("true")
    (briefing,) = recorded.of(Briefing)
    assert recorded.types()[0] == "briefing"
    assert briefing.text == recorded.session.briefing.text
    assert briefing.sha256 == hashlib.sha256(briefing.text.encode()).hexdigest()


@pytest.mark.req("E-02", "E-04", "T-01")
def test_every_call_logs_start_and_end(open_session: OpenSession, folder_sandbox: FolderSandbox) -> None:
    folder_sandbox.on_run = lambda _command: completed(b"out", exit_code=3, stderr=b"err")
    recorded = open_session()
    result = recorded.session.run("make", env={"A": "1"})
    assert (result.ok, result.stdout, result.stderr, result.exit_code) == (False, "out", "err", 3)
    assert (result.error_type, result.error_message) == ("nonzero_exit", "exit status 3")
    (started,) = recorded.of(ToolCallStarted)
    (finished,) = recorded.of(ToolCallFinished)
    assert started.arguments == {"command": "make", "timeout_sec": None, "env": {"A": "1"}}
    assert (finished.call_id, finished.tool, finished.exit_code) == (started.call_id, "run", 3)
    assert finished.stdout.text == "out"
    assert finished.stdout.sha256 == hashlib.sha256(b"out").hexdigest()
    actors = {event.type: event.actor for event in recorded.events()}
    assert actors["tool_call_started"] == "agent"
    assert actors["tool_call_finished"] == "harness"


@pytest.mark.req("T-08")
@pytest.mark.parametrize("steps,code", [(True, "max_steps"), (False, "tool_call_cap")])
def test_spent_call_budget_ends_the_session(open_session: OpenSession, steps: bool, code: str) -> None:
    recorded = open_session(with_calls(2, steps_are_calls=steps))
    assert recorded.session.remaining.tool_calls == 2
    recorded.session.list_files()
    recorded.session.call("nonsense")
    assert recorded.session.remaining.tool_calls == 0
    with pytest.raises(SessionEnded) as caught:
        recorded.session.list_files()
    assert caught.value.code == code
    assert len(recorded.of(ToolCallStarted)) == 2
    alert = next(event for event in recorded.events() if isinstance(event.payload, MonitorAlert))
    assert caught.value.evidence[0] == alert.seq
    (intervention,) = recorded.of(Intervention)
    assert (intervention.action, intervention.alert) == ("terminate", alert.seq)


def test_ended_session_stays_ended(open_session: OpenSession) -> None:
    recorded = open_session(with_calls(0))
    for _ in range(3):
        with pytest.raises(SessionEnded):
            recorded.session.list_files()
    assert recorded.session.ended is not None
    assert len(recorded.of(Intervention)) == 1


@pytest.mark.req("R-10")
def test_call_beyond_wall_clock_is_logged_and_ends_the_session(
    open_session: OpenSession, folder_sandbox: FolderSandbox
) -> None:
    clock = Clock()

    def slow(command: Command) -> Completed:
        clock.now += command.timeout_sec
        return completed(exit_code=None, timed_out=True)

    folder_sandbox.on_run = slow
    recorded = open_session(Rules(caps=Caps(wall_sec=10, tool_timeout_sec=120)), clock)
    with pytest.raises(SessionEnded) as caught:
        recorded.session.run("sleep 1000", timeout_sec=60)
    assert caught.value.code is TerminationCode.WALL_CAP
    assert folder_sandbox.commands[0].timeout_sec == pytest.approx(10)
    (finished,) = recorded.of(ToolCallFinished)
    assert finished.timed_out
    assert finished.error_type == "timeout"


def test_thinking_time_counts(open_session: OpenSession) -> None:
    clock = Clock()
    recorded = open_session(Rules(caps=Caps(wall_sec=10)), clock)
    clock.now = 11
    with pytest.raises(SessionEnded) as caught:
        recorded.session.list_files()
    assert caught.value.code is TerminationCode.WALL_CAP
    assert recorded.session.remaining.wall_sec == 0


@pytest.mark.req("C-04b")
def test_command_timeout_is_capped_by_the_contract(open_session: OpenSession, folder_sandbox: FolderSandbox) -> None:
    recorded = open_session(Rules(caps=Caps(tool_timeout_sec=7)))
    assert recorded.session.run("a").note == ""
    assert "7 s" in recorded.session.run("a", timeout_sec=100).note
    recorded.session.run("a", timeout_sec=3)
    assert [round(command.timeout_sec) for command in folder_sandbox.commands] == [7, 7, 3]


@pytest.mark.req("M-07a")
def test_failed_test_cycles_are_counted_and_capped(open_session: OpenSession, folder_sandbox: FolderSandbox) -> None:
    folder_sandbox.on_run = lambda _command: completed(exit_code=1)
    recorded = open_session(Rules(caps=Caps(budget=Budget(failed_cycles=2)), test_commands=("make check",)))
    recorded.session.run("ls")
    recorded.session.run("cd src && python -m pytest -q | tail")
    recorded.session.run("make check")
    cycles = recorded.of(events.TestsFinished)
    assert [cycle.outcome for cycle in cycles] == ["fail", "fail"]
    with pytest.raises(SessionEnded) as caught:
        recorded.session.run("ls")
    assert caught.value.code is TerminationCode.FAILED_CYCLE_CAP


# --- rules --------------------------------------------------------------------------------------------------------


@pytest.mark.req("C-08d")
def test_tool_not_in_the_contract_is_refused(open_session: OpenSession) -> None:
    recorded = open_session(Rules(tools=("read_file", "run")))
    assert recorded.session.list_files().error_type == "tool_denied"
    assert recorded.session.run("true").ok
    assert list(recorded.session.tools) == ["read_file", "run"]


@pytest.mark.req("C-08b", "E-07a")
@pytest.mark.parametrize("command", ["curl http://x", "cd a && curl http://x", "true; curl x | sh"])
def test_denied_command_is_refused_with_an_alert(
    open_session: OpenSession, folder_sandbox: FolderSandbox, command: str
) -> None:
    recorded = open_session(Rules(deny_commands=(DenyCommand(pattern="curl *", severity="gate"),)))
    result = recorded.session.run(command)
    assert result.error_type == "command_denied"
    assert folder_sandbox.commands == []
    (alert,) = [event for event in recorded.of(MonitorAlert) if event.monitor == "deny_commands"]
    assert (alert.severity, alert.rule, alert.format) == ("gate", "curl *", "code")
    assert {intervention.action for intervention in recorded.of(Intervention)} == {"deny"}
    assert recorded.session.run("echo curl").ok


# --- bad calls ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name,arguments,kind,message",
    [
        ("rm", {}, "unknown_tool", "list_files"),
        ("run", {}, "invalid_arguments", "command"),
        ("run", None, "invalid_arguments", "command"),
        ("run", "ls", "invalid_arguments", "object"),
        ("run", ["ls"], "invalid_arguments", "object"),
        ("run", {"cmd": "ls", "command": "ls"}, "invalid_arguments", "expected: command, timeout_sec, env"),
        ("run", {"command": "a\0b"}, "invalid_arguments", "NUL"),
        ("run", {"command": "\ud800"}, "invalid_arguments", "unicode"),
        ("run", {"command": "x" * 200_000}, "invalid_arguments", "command"),
        ("run", {"command": "ls", "timeout_sec": 0}, "invalid_arguments", "timeout_sec"),
        ("run", {"command": "ls", "timeout_sec": "soon"}, "invalid_arguments", "timeout_sec"),
        ("run", {"command": "ls", "env": {"A B": "1"}}, "invalid_arguments", "env"),
        ("run", {"command": "ls", "env": {"A": "\0"}}, "invalid_arguments", "env"),
        ("read_file", {"path": "a", "start_line": 0}, "invalid_arguments", "start_line"),
        ("search", {"query": "a\nb"}, "invalid_arguments", "one line"),
        ("search", {"query": "a", "max_results": 10**9}, "invalid_arguments", "max_results"),
        ("apply_patch", {"unified_diff": "\ud800"}, "invalid_arguments", "unicode"),
    ],
)
def test_invalid_call_returns_the_problem(
    open_session: OpenSession, folder_sandbox: FolderSandbox, name: str, arguments: JsonValue, kind: str, message: str
) -> None:
    recorded = open_session()
    result = recorded.session.call(name, arguments)
    assert result.error_type == kind
    assert result.error_message is not None
    assert message in result.error_message
    assert folder_sandbox.commands == []
    (finished,) = recorded.of(ToolCallFinished)
    assert finished.error_type == kind


anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)


@pytest.mark.req("T-01", "E-01")
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(calls=st.lists(st.tuples(st.sampled_from(["run", "read_file", "search", "list_files", "x\ud800"]), anything)))
def test_arbitrary_arguments_never_break_the_session(
    folder_sandbox: FolderSandbox, calls: list[tuple[str, JsonValue]]
) -> None:
    path = folder_sandbox.folder.parent / f"{new_ulid()}.jsonl"
    with EventLog.create(path) as log:
        rules = Rules(caps=Caps(budget=Budget()))
        session = Session(BriefingText("x"), SessionEnvironment(folder_sandbox), rules, SessionLog(log))
        for name, arguments in calls:
            session.call(name, arguments)
    assert sum(event.type == "tool_call_finished" for event in read_events(path)) == len(calls)


@pytest.mark.req("E-03", "R-16")
def test_long_arguments_are_logged_as_blobs(open_session: OpenSession) -> None:
    recorded = open_session()
    recorded.session.run("echo " + "x" * 50_000)
    (started,) = recorded.of(ToolCallStarted)
    kept = started.arguments["command"]
    assert isinstance(kept, dict)
    assert kept["total_bytes"] == 50_005
    assert recorded.blobs.get(str(kept["blob"])) == b"echo " + b"x" * 50_000


@pytest.mark.req("R-16", "E-04")
def test_long_output_is_shortened_and_stored_in_full(open_session: OpenSession, folder_sandbox: FolderSandbox) -> None:
    output = b"".join(b"line %d\n" % number for number in range(10_000))
    folder_sandbox.on_run = lambda _command: completed(output)
    recorded = open_session()
    result = recorded.session.run("x")
    assert result.truncated
    assert result.stdout.startswith("line 0\n")
    assert result.stdout.endswith("line 9999\n")
    assert "lines not shown" in result.stdout
    (finished,) = recorded.of(ToolCallFinished)
    assert finished.stdout.sha256 == hashlib.sha256(output).hexdigest()
    assert finished.stdout.blob is not None
    assert recorded.blobs.get(finished.stdout.blob) == output


# --- breakers, monitors, backpressure -------------------------------------------------------------------------------


@pytest.mark.req("M-09")
def test_backpressure_waits_and_tells_the_agent(open_session: OpenSession) -> None:
    recorded = open_session(
        Rules(caps=Caps(budget=Budget()), thresholds=replace(published_thresholds(), burst_calls=2)), Clock()
    )
    waits: list[float] = []
    recorded.session._limits.sleep = waits.append
    notes = [recorded.session.read_file(f"x{number}").note for number in range(4)]
    assert waits == [0.25, 0.5]
    assert notes[:2] == ["", ""]
    assert notes[2] == "backpressure: waited 0.25 s, 3 tool calls within 10 s"
    throttled = [event for event in recorded.of(Intervention) if event.action == "throttle"]
    assert len(throttled) == 2


class Person:
    """Advances the clock, then answers."""

    def __init__(self, answer: Answer | None, clock: Clock) -> None:
        self.asked: list[Question] = []
        self._answer, self._clock = answer, clock

    def ask(self, question: Question) -> Answer | None:
        self.asked.append(question)
        self._clock.now += 500
        return self._answer


@pytest.mark.req("M-04")
@pytest.mark.parametrize(
    "answer,code",
    [
        (Answer("continue", "ann", "the task needs it"), None),
        (Answer("stop", "ann", "no"), TerminationCode.OPERATOR_ABORT),
        (None, TerminationCode.OPERATOR_ABORT),
    ],
)
def test_waiting_for_the_operator_is_not_agent_time(
    folder_sandbox: FolderSandbox, open_session: OpenSession, answer: Answer | None, code: TerminationCode | None
) -> None:
    clock = Clock()
    recorded = open_session(Rules(operator=True, caps=Caps(wall_sec=100)), clock)
    person = Person(answer, clock)
    recorded.session._limits.operator = person
    if code is None:
        assert recorded.session.run("sudo ls").ok
        assert recorded.session.remaining.wall_sec == 100
        assert [event.duration_us for event in recorded.of(ToolCallFinished)] == [0]
    else:
        with pytest.raises(SessionEnded) as caught:
            recorded.session.run("sudo ls")
        assert caught.value.code is code
        assert folder_sandbox.commands == []
    (question,) = person.asked
    alert = next(event for event in recorded.events() if isinstance(event.payload, MonitorAlert))
    assert (question.rule, question.alert) == ("os.privilege_escalation", alert.seq)
    (decision,) = recorded.of(OperatorDecision)
    assert decision.alert == alert.seq
    assert decision.operator == ("deadline rule" if answer is None else "ann")


@pytest.mark.req("M-04")
def test_decision_keeps_its_alert_despite_concurrent_events(tmp_path: Path) -> None:
    with EventLog.create(tmp_path / "events.jsonl") as log:
        recorder = EventRecorder(log, engine=RuleEngine(Limits(), PolicyMonitor(ContractRules(operator=True))))
        recorder.write(Briefing(text="", sha256="", parts={}))
        call = ToolCallStarted(call_id="c1", tool="run", arguments={"command": "sudo ls"})
        (trip,) = recorder.trips(recorder.write(call, "agent"))
        alert = recorder.alert_of(trip)
        # A background program requests an unlisted host from the proxy.
        recorder.write(
            NetworkRequest(
                request_id="n1", way="tunnel", method="CONNECT", host="x.example", port=443, target="x.example:443",
                head=Excerpt(), refused="not_listed", why="not listed",
            )
        )  # fmt: skip
        assert isinstance([event.payload for event in read_events(log.path)][alert - 1], MonitorAlert)
        assert recorder.alert_of(trip) == alert


@pytest.mark.req("M-02a", "M-03a")
def test_breaker_ends_the_session_after_the_tripping_call(
    open_session: OpenSession, folder_sandbox: FolderSandbox
) -> None:
    recorded = open_session(Rules(caps=Caps(budget=Budget())))
    for _ in range(7):
        recorded.session.run("make")
    with pytest.raises(SessionEnded) as caught:
        recorded.session.run("make")
    assert caught.value.code is TerminationCode.REPEATED_CALLS
    assert len(folder_sandbox.commands) == 8
    with pytest.raises(SessionEnded):
        recorded.session.read_file("x")
    assert (
        recheck(
            recorded.events(), Rules(caps=Caps(budget=Budget())).limits, PolicyMonitor(), ENGINE_MONITORS | MONITORS
        )
        == []
    )


# --- the rest -------------------------------------------------------------------------------------------------------


def test_sandbox_failure_is_raised(open_session: OpenSession, folder_sandbox: FolderSandbox) -> None:
    def broken(command: Command) -> Completed:
        raise SandboxError("the channel is gone")

    folder_sandbox.on_run = broken
    recorded = open_session()
    with pytest.raises(SandboxError):
        recorded.session.run("true")


def test_interruption_is_raised_before_the_next_call(folder_sandbox: FolderSandbox, open_session: OpenSession) -> None:
    recorded = open_session()
    recorded.session._limits.cancelled = lambda: True
    with pytest.raises(Interrupted):
        recorded.session.run("true")


def test_stop_ends_the_session_as_agent_stopped(open_session: OpenSession) -> None:
    recorded = open_session()
    recorded.session.list_files()
    with pytest.raises(SessionEnded) as caught:
        recorded.session.stop("all done \x1b[31m")
    assert caught.value.code is TerminationCode.AGENT_STOPPED
    assert "\x1b" not in caught.value.rationale
    assert caught.value.evidence == (recorded.session.last_event,)


@pytest.mark.req("C-08d")
def test_program_is_refused_if_commands_are_not_allowed(
    open_session: OpenSession, folder_sandbox: FolderSandbox
) -> None:
    recorded = open_session(Rules(stages=("inspect", "write")))
    with pytest.raises(InputError, match="needs to run commands"):
        recorded.session.run_program(AgentProgram("agent_command", "sh x"))
    assert folder_sandbox.commands == []


def test_program_is_limited_by_the_wall_clock_only(open_session: OpenSession, folder_sandbox: FolderSandbox) -> None:
    recorded = open_session(Rules(caps=Caps(budget=Budget(tool_calls=0), wall_sec=500, tool_timeout_sec=1)), Clock())
    assert recorded.session.run_program(AgentProgram("agent_command", "sh x", {"A": "b"})).ok
    assert folder_sandbox.commands[0].timeout_sec == 500
    assert folder_sandbox.commands[0].env == {"A": "b"}
    starts = [event for event in recorded.events() if event.type == "tool_call_started"]
    assert [event.actor for event in starts] == ["harness"]


@pytest.mark.req("T-08", "M-07a")
def test_remaining_budget_is_visible(open_session: OpenSession) -> None:
    budget = Budget(tool_calls=5, tokens=1000, cost_micro_usd=2_000_000)
    recorded = open_session(Rules(caps=Caps(budget=budget, wall_sec=100.0)), Clock())
    used = events.LlmResponse(
        request_id="m1",
        status="ok",
        content=events.Excerpt(),
        prompt_tokens=100,
        completion_tokens=50,
        cached_tokens=0,
        cost_micro_usd=500_000,
        duration_us=1,
        conversation_index=1,
    )
    recorded.session.list_files()
    recorded.session._recorder.write(used)
    assert recorded.session.remaining == RemainingBudget(tool_calls=4, wall_sec=100.0, tokens=850, usd=1.5)


@pytest.mark.req("E-01", "E-12")
def test_session_log_verifies(open_session: OpenSession, folder_sandbox: FolderSandbox) -> None:
    fill(folder_sandbox.folder, {"a": "1\n"})
    recorded = open_session()
    recorded.session.apply_patch("--- a/a\n+++ b/a\n@@ -1 +1 @@\n-1\n+2\n")
    recorded.session.run("true")
    chain = verify_log(recorded.log_path).chain
    assert chain.events == len(recorded.events())
    assert chain.problem is None


@pytest.mark.parametrize(
    "steps,calls,expected",
    [
        (30, None, Budget(tool_calls=30, cost_micro_usd=1_000_000, steps_are_calls=True)),
        (30, 10, Budget(tool_calls=10, cost_micro_usd=1_000_000, steps_are_calls=False)),
        (10, 30, Budget(tool_calls=10, cost_micro_usd=1_000_000, steps_are_calls=True)),
    ],
)
def test_smaller_of_two_limits_applies(steps: int, calls: int | None, expected: Budget) -> None:
    task = TASK.model_copy(update={"budget": TASK.budget.model_copy(update={"tool_calls": calls, "usd": 1})})
    assert rules_for(task, max_steps=steps).caps.budget == expected


def test_read_only_agent_has_no_write_stage() -> None:
    task = Task.model_validate({"id": "t", "suite": "s", "repo": "none", "agent": {"allow_file_write": False}})
    rules = rules_for(task)
    assert rules.stages == ("inspect", "test")
    assert not rules.scope.may_change(b"a")
