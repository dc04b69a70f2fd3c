"""The agent `llm_v0` on a task in the short form: its loop and everything that ends it, from the command line."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from agentbench.trace.events import ToolCallStarted
from agentbench.trace.log import read_events
from tests.execution.conftest import Ab, Ran
from tests.execution.tasks import PATCH, make_task
from tests.execution.test_models import calls, script, with_model

pytestmark = [pytest.mark.end_to_end, pytest.mark.req("T-04b")]

FAILING = "sh check.sh"
SHORT_FORM = f"""
id: answer
suite: tiny
repo: {{path: repo}}
environment: {{timeout_sec: 60, tool_timeout_sec: 20, mem_limit_mb: 256, disk_limit_mb: 64, pids_limit: 64}}
validation:
  failing_command: "{FAILING}"
  passing_command: "grep -qx 42 answer.txt"
"""


@pytest.fixture
def task(tmp_path: Path) -> Path:
    folder = make_task(tmp_path / "task", text=SHORT_FORM)
    (folder / "repo/check.sh").write_text('echo "answer.txt says $(cat answer.txt)"\ngrep -qx 42 answer.txt\n')
    return folder


def actions(ran: Ran) -> list[str]:
    """Return model requests and tool calls in their order."""
    folder = Path(ran.json["run_dir"], ran.record["artifact_paths"]["task_dir"])
    shown = []
    for event in read_events(folder / "events.jsonl", types={"llm_request", "tool_call_started"}):
        payload = event.payload
        shown.append(
            f"{payload.tool} {payload.arguments.get('command', '')}".strip()
            if isinstance(payload, ToolCallStarted)
            else "ask"
        )
    return shown


def messages(ran: Ran) -> list[dict[str, Any]]:
    folder = Path(ran.json["run_dir"], ran.record["artifact_paths"]["task_dir"])
    return [json.loads(line) for line in (folder / "agent/conversation.jsonl").read_text().splitlines()]


def test_failing_command_runs_before_the_first_request_and_after_each_patch(ab: Ab, task: Path, tmp_path: Path) -> None:
    wrong = PATCH.replace("+42", "+40")
    right = PATCH.replace("-41", "-40")
    model = script(
        tmp_path,
        calls("read_file", path="answer.txt"),
        calls("apply_patch", unified_diff=wrong),
        calls("apply_patch", unified_diff=right),
    )
    ran = with_model(ab, task, model)
    assert ran.record["result"]["passed"], ran.stderr
    assert ran.record["termination"]["rationale"] == "tests pass"
    run = f"run {FAILING}"
    assert actions(ran) == [run, "ask", "read_file", "ask", "apply_patch", run, "ask", "apply_patch", run]
    asked = [message["text"] for message in messages(ran) if message["role"] == "user"]
    assert "answer.txt says 41" in asked[0]
    assert "The tests still fail" in asked[1]
    assert "answer.txt says 40" in asked[1]
    again = with_model(ab, task, f"recorded:{ran.json['run_dir']}")
    assert again.record["result"] == ran.record["result"]


def test_repeated_failure_ends_the_loop(ab: Ab, task: Path, tmp_path: Path) -> None:
    edits = [("x", "y"), ("y", "z"), ("z", "x"), ("x", "y"), ("y", "z")]
    (task / "repo/src/mod.py").write_text("x\n")
    patches = [f"--- a/src/mod.py\n+++ b/src/mod.py\n@@ -1 +1 @@\n-{old}\n+{new}\n" for old, new in edits]
    ran = with_model(ab, task, script(tmp_path, *(calls("apply_patch", unified_diff=patch) for patch in patches)))
    assert ran.record["termination"]["rationale"] == "gave up: the same tests failed 4 times in a row"
    assert ran.record["result"]["failure_reason"] == "TESTS_FAILED"


def test_maximum_of_steps_ends_the_loop(ab: Ab, task: Path, tmp_path: Path) -> None:
    model = script(tmp_path, *(calls("read_file", path=name) for name in ("answer.txt", "src/mod.py", "check.sh")))
    ran = with_model(ab, task, model, "--max-steps", "3")
    assert ran.record["termination"]["code"] == "max_steps"
    assert ran.record["usage"]["tool_calls"] == 3


def test_repeated_tool_errors_end_the_loop(ab: Ab, task: Path, tmp_path: Path) -> None:
    model = script(tmp_path, *(calls("read_file", path=f"missing{number}") for number in range(8)))
    ran = with_model(ab, task, model)
    assert ran.record["termination"]["code"] == "agent_crashed"
    assert "6 tool calls in a row failed" in ran.record["termination"]["rationale"]
    assert ran.record["result"]["failure_reason"] == "TOOL_ERROR"
