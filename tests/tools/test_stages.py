"""Stages of a session: entered by calls in auto mode, by requests in strict mode."""

from __future__ import annotations

import pytest

from agentbench.core.errors import InputError
from agentbench.policy.stages import TOOL_STAGES, recheck_stages
from agentbench.tools.program_run import AgentProgram
from agentbench.tools.registry import TOOLS
from agentbench.tools.rules import Rules
from agentbench.trace.events import StageChanged, ToolCallFinished, ToolCallStarted
from tests.tools.conftest import OpenSession
from tests.tools.recorded_session import FolderSandbox, RecordedSession

pytestmark = pytest.mark.component

STRICT = Rules(stage_mode="strict")
PLANNED = Rules(stage_mode="strict", stages=("inspect", "plan", "write", "test"))
NEW_FILE = "--- /dev/null\n+++ b/new.txt\n@@ -0,0 +1 @@\n+x\n"


def changes(recorded: RecordedSession) -> list[tuple[str | None, str, str]]:
    """Return the stage changes after the first stage, with their reasons."""
    return [(event.before, event.after, event.reason) for event in recorded.of(StageChanged)][1:]


# --- auto -------------------------------------------------------------------------------------------------------------


@pytest.mark.req("R-04a")
def test_stages_go_up_by_logged_steps(open_session: OpenSession) -> None:
    recorded = open_session()
    recorded.session.list_files()
    recorded.session.run("true")
    recorded.session.list_files()
    recorded.session.run("true")
    assert [(event.before, event.after, event.cause) for event in recorded.of(StageChanged)] == [
        (None, "inspect", "session started"),
        ("inspect", "test", "run"),
    ]


@pytest.mark.req("R-04a")
def test_agent_can_request_a_stage_early(open_session: OpenSession) -> None:
    recorded = open_session(Rules(stages=("inspect", "write")))
    assert recorded.session.request_stage("write", "the plan is done").ok
    refused = recorded.session.request_stage("test")
    assert refused.error_type == "stage_denied"
    assert [(event.before, event.after, event.cause) for event in recorded.of(StageChanged)][1:] == [
        ("inspect", "write", "requested: the plan is done")
    ]
    assert recorded.of(ToolCallStarted) == []


@pytest.mark.req("R-04a")
def test_tool_of_a_missing_stage_is_refused(open_session: OpenSession, folder_sandbox: FolderSandbox) -> None:
    recorded = open_session(Rules(stages=("inspect",)))
    for result in (recorded.session.run("rm -rf ."), recorded.session.apply_patch("x")):
        assert result.error_type == "stage_denied"
    assert folder_sandbox.commands == []
    assert list(recorded.session.tools) == ["list_files", "read_file", "search"]


def test_request_stage_is_not_a_tool_in_auto_mode(open_session: OpenSession) -> None:
    recorded = open_session()
    assert "request_stage" not in recorded.session.tools
    assert recorded.session.call("request_stage", {"stage": "write", "reason": "x"}).error_type == "unknown_tool"
    assert changes(recorded) == []


# --- strict -----------------------------------------------------------------------------------------------------------


@pytest.mark.req("R-04b")
def test_tool_outside_its_stage_is_denied_and_changes_nothing(
    open_session: OpenSession, folder_sandbox: FolderSandbox
) -> None:
    recorded = open_session(STRICT)
    session = recorded.session
    for result in (session.run("touch x"), session.apply_patch(NEW_FILE)):
        assert (result.ok, result.error_type) == (False, "stage_denied")
        assert "the current stage is 'inspect'" in (result.error_message or "")
        assert "request_stage(stage='write', reason=…)" in (result.error_message or "")
    assert session.list_files().ok
    assert folder_sandbox.commands == []
    assert not (folder_sandbox.folder / "new.txt").exists()
    assert changes(recorded) == []
    assert session.stage == "inspect"


@pytest.mark.req("R-04b")
def test_agent_moves_on_by_request_and_keeps_earlier_tools(open_session: OpenSession) -> None:
    recorded = open_session(STRICT)
    session = recorded.session
    assert session.call("request_stage", {"stage": "write", "reason": "the cause is known"}).ok
    assert session.apply_patch(NEW_FILE).ok
    assert session.run("true").error_type == "stage_denied"
    assert session.request_stage("test", "the change is made").ok
    assert session.run("true").ok
    assert session.read_file("new.txt").ok
    assert changes(recorded) == [
        ("inspect", "write", "the cause is known"),
        ("write", "test", "the change is made"),
    ]
    assert [call.stage for call in recorded.of(ToolCallStarted)] == [
        *("inspect", "write", "write", "write", "test", "test"),
    ]
    assert recheck_stages(recorded.events(), STRICT.stages) == []


@pytest.mark.req("R-04b")
@pytest.mark.parametrize(
    "stage,message",
    [
        ("inspect", "behind the current stage 'write'"),
        ("plan", "the contract allows: inspect, write, test"),
    ],
)
def test_stage_that_is_not_next_is_denied(open_session: OpenSession, stage: str, message: str) -> None:
    recorded = open_session(STRICT)
    recorded.session.request_stage("write", "ready")
    before = changes(recorded)
    result = recorded.session.call("request_stage", {"stage": stage, "reason": "because"})
    assert result.error_type == "stage_denied"
    assert message in (result.error_message or "")
    assert changes(recorded) == before


@pytest.mark.req("R-04b")
def test_stage_cannot_be_skipped(open_session: OpenSession) -> None:
    recorded = open_session(STRICT)
    result = recorded.session.request_stage("test", "run the tests first")
    assert result.error_type == "stage_denied"
    assert result.error_message == "the stage 'test' does not follow 'inspect': ask for 'write' first"
    assert changes(recorded) == []


def test_request_for_the_current_stage_changes_nothing(open_session: OpenSession) -> None:
    recorded = open_session(STRICT)
    assert recorded.session.request_stage("inspect", "once more").ok
    assert changes(recorded) == []


@pytest.mark.parametrize(
    "arguments", [{"stage": "write"}, {"stage": "write", "reason": " "}, {"stage": "x", "reason": "y"}]
)
def test_request_needs_a_stage_and_a_reason(open_session: OpenSession, arguments: dict[str, str]) -> None:
    recorded = open_session(STRICT)
    assert recorded.session.call("request_stage", dict(arguments)).error_type == "invalid_arguments"
    assert changes(recorded) == []


@pytest.mark.req("R-04b")
def test_leaving_the_plan_stage_records_the_plan(open_session: OpenSession) -> None:
    recorded = open_session(PLANNED)
    session = recorded.session
    assert session.request_stage("write", "now").error_type == "stage_denied"
    assert session.request_stage("plan", "the code is read").ok
    assert session.list_files().ok
    denied = session.apply_patch(NEW_FILE)
    assert "its reason is recorded as your plan" in (denied.error_message or "")
    assert session.request_stage("write", "").error_type == "invalid_arguments"
    assert session.request_stage("write", "1. add new.txt\n2. run the tests").ok
    assert session.apply_patch(NEW_FILE).ok
    assert changes(recorded)[-1] == ("plan", "write", "1. add new.txt\n2. run the tests")
    assert recheck_stages(recorded.events(), PLANNED.stages) == []


def test_requests_count_as_tool_calls(open_session: OpenSession) -> None:
    recorded = open_session(STRICT)
    left = recorded.session.remaining.tool_calls
    recorded.session.request_stage("write", "ready")
    assert left is not None
    assert recorded.session.remaining.tool_calls == left - 1


def test_contract_that_lists_tools_still_offers_requests(open_session: OpenSession) -> None:
    recorded = open_session(Rules(stage_mode="strict", tools=("read_file", "apply_patch")))
    assert list(recorded.session.tools) == ["read_file", "apply_patch", "request_stage"]
    assert recorded.session.request_stage("write", "ready").ok


@pytest.mark.req("R-04b")
def test_program_is_refused_in_strict_mode(open_session: OpenSession, folder_sandbox: FolderSandbox) -> None:
    recorded = open_session(STRICT)
    with pytest.raises(InputError, match="cannot be enforced"):
        recorded.session.run_program(AgentProgram("agent_program", "true"))
    assert folder_sandbox.commands == []


def test_reference_enters_every_stage_in_order(open_session: OpenSession) -> None:
    recorded = open_session(PLANNED)
    assert recorded.session.submit_patch(NEW_FILE.encode()).ok
    assert recorded.session.run_program(AgentProgram("reference_script", "true", of_task=True)).ok
    assert [(before, after) for before, after, _ in changes(recorded)] == [
        *(("inspect", "plan"), ("plan", "write"), ("write", "test")),
    ]
    assert recorded.of(ToolCallFinished)[0].ok
    assert recheck_stages(recorded.events(), PLANNED.stages) == []


def test_recheck_knows_the_stage_of_every_tool() -> None:
    assert {name: tool.stage for name, tool in TOOLS.items() if tool.stage is not None} == TOOL_STAGES
