"""Agents with a model: what ends them, how they handle a model's mistakes, and what they leave to be graded."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from agentbench.agents.base import AgentSetup
from agentbench.agents.llm_v0 import SILENT
from agentbench.agents.registry import make_agent
from agentbench.agents.visible_tests import SAME_FAILURE
from agentbench.core.errors import InputError
from agentbench.core.reasons import TerminationCode
from agentbench.policy.budget import Budget
from agentbench.tools.rules import Caps, Rules
from agentbench.trace.events import Delegation, ToolCallStarted
from tests.agents.agent_run import RIGHT, call, fenced, harmless, patch, play
from tests.tools.project_sandboxes import ProjectSandboxes

pytestmark = [pytest.mark.req("T-04b", "T-07"), pytest.mark.component]

STOPPED = TerminationCode.AGENT_STOPPED


# --- the loop ---------------------------------------------------------------------------------------------------------


def test_agent_ends_when_the_tests_pass(sandboxes: ProjectSandboxes, tmp_path: Path) -> None:
    done = play(sandboxes, tmp_path, "llm_v0", [call("read_file", path="src/calc.py"), patch(RIGHT)])
    assert (done.ended.code, done.ended.rationale) == (STOPPED, "tests pass")
    assert done.ended.evidence == (done.recorded.session.last_event,)
    assert b"+    return sorted(values)" in done.patch
    opening = done.requests[0]["messages"][1]["content"]
    assert "do it" in opening
    assert "FAILED tests/test_calc.py::test_median" in opening
    assert "def median" in done.last_answers()[0]


@pytest.mark.req("T-06")
def test_diff_in_a_code_fence_is_applied(sandboxes: ProjectSandboxes, tmp_path: Path) -> None:
    done = play(sandboxes, tmp_path, "llm_v0", [fenced(RIGHT)])
    assert done.ended.code is STOPPED
    assert b"sorted(values)" in done.patch


def test_model_can_correct_a_refused_diff(sandboxes: ProjectSandboxes, tmp_path: Path) -> None:
    done = play(sandboxes, tmp_path, "llm_v0", [fenced(RIGHT.replace("return 0", "return 7")), fenced(RIGHT)])
    assert done.ended.rationale == "tests pass"
    messages = [message["content"] for message in done.requests[1]["messages"] if message["role"] == "user"]
    assert any("The patch was refused" in text for text in messages)


def test_agent_gives_up_on_a_repeated_failure(sandboxes: ProjectSandboxes, tmp_path: Path) -> None:
    done = play(sandboxes, tmp_path, "llm_v0", [harmless(number) for number in range(10)])
    assert done.ended.code is STOPPED
    assert done.ended.rationale == f"gave up: the same tests failed {SAME_FAILURE} times in a row"
    assert len(done.requests) == SAME_FAILURE


def test_agent_gives_up_on_answers_without_calls_or_patches(sandboxes: ProjectSandboxes, tmp_path: Path) -> None:
    done = play(sandboxes, tmp_path, "llm_v0", [{"text": "It is solved."}], after="repeat")
    assert done.ended.code is STOPPED
    assert (len(done.requests), done.patch) == (SILENT, b"")


def test_without_tests_the_model_decides_when_it_is_done(sandboxes: ProjectSandboxes, tmp_path: Path) -> None:
    answers = [patch(RIGHT), harmless(1), {"text": "Both are done."}]
    done = play(sandboxes, tmp_path, "llm_v0", answers, tests=None)
    assert (done.ended.code, done.ended.rationale) == (STOPPED, "model is done: Both are done.")
    assert b"note1.txt" in done.patch


def test_tests_that_passed_before_do_not_end_the_attempt(sandboxes: ProjectSandboxes, tmp_path: Path) -> None:
    done = play(sandboxes, tmp_path, "llm_v0", [harmless(1), patch(RIGHT), {"text": "Done."}], tests="true")
    assert done.ended.code is STOPPED
    assert b"note1.txt" in done.patch
    assert b"sorted" in done.patch


@pytest.mark.req("R-10")
def test_cap_on_steps_ends_the_agent(sandboxes: ProjectSandboxes, tmp_path: Path) -> None:
    rules = Rules(caps=Caps(budget=Budget(tool_calls=5, steps_are_calls=True)))
    looking = [call("read_file", path="src/calc.py", start_line=line) for line in range(1, 9)]
    done = play(sandboxes, tmp_path, "llm_v0", looking, rules=rules)
    assert done.ended.code is TerminationCode.MAX_STEPS
    assert len(done.recorded.of(ToolCallStarted)) == 5


# --- mistakes of models -----------------------------------------------------------------------------------------------


@pytest.mark.req("T-06")
@pytest.mark.parametrize(
    "wrong, kind",
    [
        ({"name": "make_coffee", "arguments": {}}, "unknown_tool"),
        ({"name": "read_file", "arguments_text": "{path: calc.py"}, "invalid_arguments"),
        ({"name": "read_file", "arguments_text": '"src/calc.py"'}, "invalid_arguments"),
        ({"name": "read_file", "arguments": {}}, "invalid_arguments"),
        ({"name": "read_file", "arguments": {"path": "src/calc.py", "colour": "red"}}, "invalid_arguments"),
        ({"name": "read_file", "arguments": {"path": ["src/calc.py"]}}, "invalid_arguments"),
        ({"name": "read_file", "arguments_text": '{"path": ' + "[" * 900 + "]" * 900 + "}"}, "invalid_arguments"),
        ({"name": "read_file", "arguments_text": '{"path": "src/calc.py", "start_line": 1e999}'}, "invalid_arguments"),
        ({"name": "read_file", "arguments": {"path": "../../etc/passwd"}}, "path_unsafe"),
    ],
)
def test_bad_tool_call_is_reported_to_the_model(
    sandboxes: ProjectSandboxes, tmp_path: Path, wrong: dict[str, Any], kind: str
) -> None:
    done = play(sandboxes, tmp_path, "llm_v0", [{"tool_calls": [wrong]}, patch(RIGHT)])
    assert done.ended.rationale == "tests pass"
    (result,) = map(json.loads, done.last_answers())
    assert (result["ok"], result["error_type"]) == (False, kind)


def test_truncated_arguments_are_reported_as_truncated(sandboxes: ProjectSandboxes, tmp_path: Path) -> None:
    cut = {"tool_calls": [{"name": "apply_patch", "arguments_text": '{"unified_diff": "--- a/s'}], "finish": "length"}
    done = play(sandboxes, tmp_path, "llm_v0", [cut, patch(RIGHT)])
    assert "cut off" in done.last_answers()[0]
    assert done.ended.rationale == "tests pass"


def test_agent_crashes_after_repeated_failing_calls(sandboxes: ProjectSandboxes, tmp_path: Path) -> None:
    broken = {"tool_calls": [{"name": "read_file", "arguments_text": "{"}]}
    done = play(sandboxes, tmp_path, "llm_v0", [broken], after="repeat")
    assert done.ended.code is TerminationCode.AGENT_CRASHED
    assert "in a row failed" in done.ended.rationale


def test_twenty_calls_in_one_answer_are_all_answered(sandboxes: ProjectSandboxes, tmp_path: Path) -> None:
    many = {"tool_calls": [{"name": "search", "arguments": {"query": f"m{n}"}, "id": f"id{n}"} for n in range(20)]}
    done = play(sandboxes, tmp_path, "llm_v0", [many, patch(RIGHT)])
    assert done.ended.rationale == "tests pass"
    answers = [message for message in done.requests[-1]["messages"] if message["role"] == "tool"]
    assert [message["tool_call_id"] for message in answers] == [f"id{n}" for n in range(20)]


@pytest.mark.parametrize("status", [429, 500, 400])
def test_failing_model_service_is_an_llm_error(sandboxes: ProjectSandboxes, tmp_path: Path, status: int) -> None:
    refused = {"error": {"status": status, "message": "maximum context length exceeded"}}
    done = play(sandboxes, tmp_path, "llm_v0", [refused], after="repeat")
    assert done.ended.code is TerminationCode.LLM_ERROR
    assert done.patch == b""


def test_empty_answers_are_an_llm_error(sandboxes: ProjectSandboxes, tmp_path: Path) -> None:
    done = play(sandboxes, tmp_path, "llm_v0", [{"text": ""}], after="repeat")
    assert done.ended.code is TerminationCode.LLM_ERROR


def test_work_before_a_model_failure_can_be_graded(sandboxes: ProjectSandboxes, tmp_path: Path) -> None:
    done = play(sandboxes, tmp_path, "llm_v0", [harmless(1), {"error": {"status": 500}}], after="repeat")
    assert done.ended.code is TerminationCode.LLM_ERROR
    assert b"note1.txt" in done.patch


@pytest.mark.parametrize("agent", ["llm_v0", "context_packer", "subagents", "cli:aider"])
def test_agent_without_a_model_is_an_input_error(agent: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="needs a model"):
        make_agent(agent, AgentSetup("t", tmp_path))


# --- packed context ---------------------------------------------------------------------------------------------------


@pytest.mark.req("T-04c")
def test_context_packer_shows_files_named_by_failing_tests(sandboxes: ProjectSandboxes, tmp_path: Path) -> None:
    done = play(sandboxes, tmp_path, "context_packer", [patch(RIGHT)])
    assert done.ended.rationale == "tests pass"
    opening = done.requests[0]["messages"][1]["content"]
    assert "### src/calc.py\n```\ndef mean(values):" in opening
    assert "### tests/test_calc.py" in opening
    tools = [event.tool for event in done.recorded.of(ToolCallStarted)]
    assert tools == ["run", "list_files", "read_file", "read_file", "apply_patch", "run"]


# --- subagents --------------------------------------------------------------------------------------------------------


def answer_json(**value: Any) -> dict[str, Any]:
    return {"text": f"Here you are:\n```json\n{json.dumps(value)}\n```"}


@pytest.mark.req("T-04d")
def test_subagents_search_patch_and_test(sandboxes: ProjectSandboxes, tmp_path: Path) -> None:
    answers = [
        answer_json(next="search", task="find median", why="it fails"),
        call("search", query="median"),
        answer_json(files=[{"path": "src/calc.py", "why": "has it"}], summary="in calc"),
        answer_json(next="patch", task="sort first"),
        fenced(RIGHT),
    ]
    done = play(sandboxes, tmp_path, "subagents", answers)
    assert (done.ended.code, done.ended.rationale) == (STOPPED, "tests pass")
    assert b"sorted(values)" in done.patch
    graph = [
        (delegation.parent, delegation.child, delegation.role, delegation.task.text)
        for delegation in done.recorded.of(Delegation)
    ]
    assert graph == [
        ("subagents", "router", "router", "round 1: who works next?"),
        ("router", "searcher", "searcher", "find median"),
        ("subagents", "router", "router", "round 2: who works next?"),
        ("router", "patcher", "patcher", "sort first"),
    ]
    assert '"summary":"in calc"' in done.requests[-1]["messages"][1]["content"]


def test_each_role_has_only_its_own_tools(sandboxes: ProjectSandboxes, tmp_path: Path) -> None:
    answers = [
        answer_json(next="search", task="find it"),
        patch(RIGHT),
        call("run", command="touch made"),
        answer_json(summary="nothing"),
        answer_json(next="stop", why="enough"),
    ]
    done = play(sandboxes, tmp_path, "subagents", answers)
    assert (done.ended.code, done.ended.rationale) == (STOPPED, "router stopped: enough")
    assert done.patch == b""
    offered = [[tool["function"]["name"] for tool in body.get("tools", [])] for body in done.requests]
    assert offered == [[], *[["list_files", "read_file", "search"]] * 3, []]


def test_advice_of_the_tester_reaches_other_roles(sandboxes: ProjectSandboxes, tmp_path: Path) -> None:
    answers = [
        answer_json(next="test", task="what is wrong?"),
        answer_json(passed=False, recommendation="sort the values", suspects=["src/calc.py"]),
        answer_json(next="patch", task="do as advised"),
        fenced(RIGHT),
    ]
    done = play(sandboxes, tmp_path, "subagents", answers)
    assert done.ended.rationale == "tests pass"
    assert "sort the values" in done.requests[-1]["messages"][1]["content"]


@pytest.mark.parametrize("nonsense", ["I would search.", '{"next": "dance"}', "[]", '{"next": '])
def test_unreadable_router_answers_end_the_agent(sandboxes: ProjectSandboxes, tmp_path: Path, nonsense: str) -> None:
    done = play(sandboxes, tmp_path, "subagents", [{"text": nonsense}], after="repeat")
    assert done.ended.code is STOPPED
    assert done.ended.rationale.startswith("gave up: 3 unreadable answers in a row")
    assert len(done.requests) == 3


def test_patcher_without_a_diff_is_reported_to_the_router(sandboxes: ProjectSandboxes, tmp_path: Path) -> None:
    answers = [answer_json(next="patch", task="go"), {"text": "I cannot."}, answer_json(next="stop", why="no patch")]
    done = play(sandboxes, tmp_path, "subagents", answers)
    assert "there is no diff in it" in done.requests[-1]["messages"][1]["content"]
    assert done.ended.code is STOPPED


@pytest.mark.req("U-03")
@pytest.mark.parametrize("agent, count", [("llm_v0", 1), ("context_packer", 1), ("subagents", 4)])
def test_prompt_version_has_name_and_digest(
    sandboxes: ProjectSandboxes, tmp_path: Path, agent: str, count: int
) -> None:
    done = play(sandboxes, tmp_path, agent, [{"text": "no"}], tests=None, after="repeat")
    assert done.requests
    setup = AgentSetup("t", tmp_path, model=_NoModel())
    versions = str(getattr(make_agent(agent, setup), "prompt_version", "")).split(" ")
    assert len(versions) == count
    assert all(re.fullmatch(r"[a-z]+_v1@sha256:[0-9a-f]{64}", version) for version in versions)


class _NoModel:
    name = "none"

    def complete(self, *_: object, **__: object) -> Any:
        raise AssertionError
