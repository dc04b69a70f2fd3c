"""Whatever an agent does becomes its exit; only errors of harness and task are raised."""

from __future__ import annotations

from pathlib import Path

import pytest

from agentbench.agents.base import Agent, AgentExit, AgentSetup, run_session
from agentbench.agents.noop import NoopAgent
from agentbench.agents.reference import ReferenceAgent
from agentbench.agents.registry import make_agent
from agentbench.core.command import Command, Completed
from agentbench.core.errors import AgentCrashed, InputError, Interrupted, ModelFault, SandboxError
from agentbench.core.reasons import Observability, TerminationCode
from agentbench.policy.budget import Budget
from agentbench.tools.rules import Caps, Rules
from agentbench.tools.session import Session
from agentbench.tools.session_limits import SessionEnded
from agentbench.trace.events import PatchApplied, ToolCallStarted
from tests.tools.conftest import OpenSession
from tests.tools.recorded_session import FolderSandbox, completed, fill

pytestmark = [pytest.mark.req("T-04a"), pytest.mark.component]

PATCH = b"--- a/a\n+++ b/a\n@@ -1 +1 @@\n-1\n+\xff\n"


def setup(folder: Path, **given: object) -> AgentSetup:
    return AgentSetup(task_id="t", task_folder=folder, **given)  # type: ignore[arg-type]


class CallbackAgent:
    """An agent whose behaviour is given by the test."""

    name = "acting"
    observability = Observability.TOOLS

    def __init__(self, act: object) -> None:
        self._act = act

    def run(self, session: Session) -> AgentExit:
        assert callable(self._act)
        self._act(session)
        return AgentExit(TerminationCode.AGENT_STOPPED)


def test_noop_does_nothing_and_stops(open_session: OpenSession) -> None:
    recorded = open_session()
    ended = run_session(NoopAgent(), recorded.session)
    assert ended.code is TerminationCode.AGENT_STOPPED
    assert recorded.of(ToolCallStarted) == []


def test_reference_patch_is_applied_byte_for_byte(
    open_session: OpenSession, workspace: Path, folder_sandbox: FolderSandbox, tmp_path: Path
) -> None:
    fill(workspace, {"a": "1\n"})
    file = tmp_path / "reference.patch"
    file.write_bytes(PATCH)
    recorded = open_session(Rules(caps=Caps(budget=Budget(tool_calls=0))))
    ended = run_session(make_agent("reference", setup(tmp_path, reference=file)), recorded.session)
    assert ended.code is TerminationCode.AGENT_STOPPED
    assert (workspace / "a").read_bytes() == b"\xff\n"
    assert folder_sandbox.commands == []
    assert [path.name for path in workspace.iterdir()] == ["a"]
    (started,) = [event for event in recorded.events() if event.type == "tool_call_started"]
    assert started.actor == "harness"
    assert len(recorded.of(PatchApplied)) == 1


def test_reference_that_does_not_apply_ends_with_the_reason(open_session: OpenSession) -> None:
    recorded = open_session()
    ended = run_session(ReferenceAgent(PATCH), recorded.session)
    assert ended.code is TerminationCode.AGENT_CRASHED
    assert "no such file" in ended.rationale
    assert ended.evidence == (recorded.session.last_event,)


def test_missing_reference_is_an_input_error(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="task 't' has no reference"):
        make_agent("reference", setup(tmp_path))
    with pytest.raises(InputError, match="cannot read reference"):
        make_agent("reference", setup(tmp_path, reference=tmp_path / "missing.patch"))


@pytest.mark.parametrize("command", [None, "", "  "])
def test_command_agent_without_a_command_is_an_input_error(tmp_path: Path, command: str | None) -> None:
    with pytest.raises(InputError, match="needs a command line") as caught:
        make_agent("command", setup(tmp_path, command=command))
    assert "--agent-command" in caught.value.remedy


def test_command_with_a_syntax_error_is_an_input_error(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="is not valid shell syntax"):
        make_agent("command", setup(tmp_path, command="echo 'x"))


@pytest.mark.req("R-10")
@pytest.mark.parametrize(
    "error,code",
    [
        (ValueError("oops \x1b[31m"), TerminationCode.AGENT_CRASHED),
        (RecursionError(), TerminationCode.AGENT_CRASHED),
        (AgentCrashed("gone"), TerminationCode.AGENT_CRASHED),
        (ModelFault("429 for ever"), TerminationCode.LLM_ERROR),
    ],
)
def test_errors_of_the_agent_become_its_exit(
    open_session: OpenSession, error: Exception, code: TerminationCode
) -> None:
    def act(session: Session) -> None:
        raise error

    ended = run_session(CallbackAgent(act), open_session().session)
    assert ended.code is code
    assert "\x1b" not in ended.rationale


@pytest.mark.parametrize("error", [SandboxError("channel"), Interrupted("ctrl-c"), InputError("bad")])
def test_errors_of_harness_and_task_are_raised(open_session: OpenSession, error: Exception) -> None:
    def act(session: Session) -> None:
        raise error

    with pytest.raises(type(error)):
        run_session(CallbackAgent(act), open_session().session)


def test_dead_sandbox_is_raised_through_the_agent(open_session: OpenSession, folder_sandbox: FolderSandbox) -> None:
    def broken(command: Command) -> Completed:
        raise SandboxError("the channel is gone")

    folder_sandbox.on_run = broken
    with pytest.raises(SandboxError):
        run_session(CallbackAgent(lambda session: session.run("x")), open_session().session)


@pytest.mark.req("T-08")
def test_endless_agent_is_stopped_by_its_cap(open_session: OpenSession) -> None:
    def act(session: Session) -> None:
        while True:
            session.list_files()

    recorded = open_session(Rules(caps=Caps(budget=Budget(tool_calls=5))))
    ended = run_session(CallbackAgent(act), recorded.session)
    assert ended.code is TerminationCode.TOOL_CALL_CAP
    assert ended.event().category == "non_termination"
    assert len(recorded.of(ToolCallStarted)) == 5


def test_agent_that_catches_the_cap_has_still_reached_it(open_session: OpenSession) -> None:
    def act(session: Session) -> None:
        for _ in range(10):
            try:
                session.list_files()
            except SessionEnded:
                continue

    recorded = open_session(Rules(caps=Caps(budget=Budget(tool_calls=2, steps_are_calls=True))))
    assert run_session(CallbackAgent(act), recorded.session).code is TerminationCode.MAX_STEPS


def test_agent_can_stop_at_any_time(open_session: OpenSession) -> None:
    ended = run_session(CallbackAgent(lambda session: session.stop("solved")), open_session().session)
    assert (ended.code, ended.rationale) == (TerminationCode.AGENT_STOPPED, "solved")


@pytest.mark.parametrize("exit_code,code", [(0, TerminationCode.AGENT_STOPPED), (3, TerminationCode.AGENT_CRASHED)])
def test_exit_status_of_the_program_decides_the_exit(
    open_session: OpenSession, folder_sandbox: FolderSandbox, tmp_path: Path, exit_code: int, code: TerminationCode
) -> None:
    folder_sandbox.on_run = lambda command: completed(exit_code=exit_code if command.line == "sh x" else 0)
    agent: Agent = make_agent("command", setup(tmp_path, command="sh x", files=tmp_path))
    assert agent.observability is Observability.PROCESS
    recorded = open_session()
    ended = run_session(agent, recorded.session)
    assert ended.code is code
    assert folder_sandbox.commands[-1].env == {
        "AB_AGENT_FILES": "/opt/agent",
        "AB_BRIEFING": "/tmp/agentbench/briefing.md",
    }
