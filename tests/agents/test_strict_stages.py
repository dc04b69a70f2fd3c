"""The model agents work in strict mode: they ask for each stage before they use its tools."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from agentbench.core.reasons import TerminationCode
from agentbench.policy.stages import recheck_stages
from agentbench.tools.rules import Rules
from agentbench.trace.events import StageChanged, ToolCallFinished
from tests.agents.agent_run import RIGHT, AgentRun, call, fenced, patch, play
from tests.tools.project_sandboxes import ProjectSandboxes

pytestmark = [pytest.mark.req("R-04b"), pytest.mark.component]

STRICT = Rules(stage_mode="strict", stages=("inspect", "plan", "write", "test"))
PLAN = "sort the values in src/calc.py"


def reasons(done: AgentRun) -> dict[str, str]:
    """Return the reason for each stage that was requested."""
    return {change.after: change.reason for change in done.recorded.of(StageChanged)[1:]}


def errors(done: AgentRun) -> list[str | None]:
    return [finished.error_type for finished in done.recorded.of(ToolCallFinished)]


def check(done: AgentRun, rationale: str) -> None:
    assert (done.ended.code, done.ended.rationale) == (TerminationCode.AGENT_STOPPED, rationale)
    assert b"+    return sorted(values)" in done.patch
    assert list(reasons(done)) == ["plan", "write", "test"]
    assert recheck_stages(done.recorded.events(), STRICT.stages) == []


@pytest.mark.parametrize("agent", ["llm_v0", "context_packer"])
def test_model_requests_stages_and_the_tests_run_at_the_end(
    sandboxes: ProjectSandboxes, tmp_path: Path, agent: str
) -> None:
    answers = [
        call("read_file", path="src/calc.py"),
        patch(RIGHT),
        call("request_stage", stage="plan", reason="the code is read"),
        call("request_stage", stage="write", reason=PLAN),
        patch(RIGHT),
        call("request_stage", stage="test", reason="the change is made"),
        {"text": "median sorts its values now."},
    ]
    done = play(sandboxes, tmp_path, agent, answers, rules=STRICT)
    check(done, "tests pass")
    assert reasons(done)["write"] == PLAN
    assert errors(done).count("stage_denied") == 1
    offered = [tool["function"]["name"] for tool in done.requests[0]["tools"]]
    assert offered == ["list_files", "read_file", "search", "apply_patch", "run", "request_stage"]


def test_model_that_only_writes_diffs_is_moved_on(sandboxes: ProjectSandboxes, tmp_path: Path) -> None:
    done = play(sandboxes, tmp_path, "llm_v0", [fenced(RIGHT)], rules=STRICT)
    check(done, "tests pass")
    assert "+    return sorted(values)" in reasons(done)["write"]


def test_model_that_only_talks_is_told_about_the_stage(sandboxes: ProjectSandboxes, tmp_path: Path) -> None:
    done = play(sandboxes, tmp_path, "llm_v0", [{"text": "I will read the code."}, fenced(RIGHT)], rules=STRICT)
    check(done, "tests pass")
    told = done.requests[1]["messages"][-1]["content"]
    assert told.startswith("You are in the stage 'inspect'.")


def test_failing_tests_are_shown_after_the_last_stage(sandboxes: ProjectSandboxes, tmp_path: Path) -> None:
    wrong = RIGHT.replace("sorted(values)[len(values) // 2]", "values[0]")
    mended = wrong.replace("-    return 0", "-    return values[0]").replace(
        "+    return values[0]", "+    return sorted(values)[len(values) // 2]"
    )
    done = play(sandboxes, tmp_path, "llm_v0", [fenced(wrong), fenced(mended)], rules=STRICT)
    check(done, "tests pass")
    assert "The tests still fail." in done.requests[1]["messages"][-1]["content"]


def test_subagents_request_stages_for_their_patch_and_tests(sandboxes: ProjectSandboxes, tmp_path: Path) -> None:
    answers = [
        {"text": json.dumps({"next": "search", "task": "find median"})},
        call("search", query="median"),
        {"text": json.dumps({"files": [{"path": "src/calc.py"}], "summary": "in calc"})},
        {"text": json.dumps({"next": "patch", "task": PLAN})},
        fenced(RIGHT),
        {"text": json.dumps({"next": "stop", "why": "the tests pass"})},
    ]
    done = play(sandboxes, tmp_path, "subagents", answers, rules=STRICT)
    check(done, "router stopped: the tests pass")
    assert reasons(done)["write"] == PLAN
    assert "stage_denied" not in errors(done)
