"""The included agents on one task in the short form, from the command line to the verdict."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
import yaml

from agentbench.trace.events import Delegation
from agentbench.trace.log import read_events
from tests.execution.conftest import Ab, Ran
from tests.execution.tasks import PATCH, make_task
from tests.execution.test_artifacts import attempt_folder, conversation_lines
from tests.execution.test_model_loop import FAILING, SHORT_FORM
from tests.execution.test_models import script, with_model

pytestmark = pytest.mark.end_to_end


@pytest.fixture
def task(tmp_path: Path) -> Path:
    folder = make_task(tmp_path / "task", text=SHORT_FORM + "reference: reference.patch\n")
    lines = ['echo "src/mod.py:1: expected 42, answer.txt says $(cat answer.txt)"', "grep -qx 42 answer.txt"]
    (folder / "repo/check.sh").write_text("\n".join(lines) + "\n")
    return folder


@pytest.mark.req("T-04a", "E-09a")
def test_agents_without_a_model_leave_the_documented_files(ab: Ab, task: Path) -> None:
    steps = [{"apply_patch": {"unified_diff": PATCH}}]
    (task / "scripted.yaml").write_text(yaml.safe_dump({"steps": steps}))
    results: dict[str, Ran] = {
        agent: ab.run_task(task, "--agent", agent) for agent in ("noop", "reference", "scripted")
    }
    passed = {agent: ran.record["result"]["passed"] for agent, ran in results.items()}
    assert passed == {"noop": False, "reference": True, "scripted": True}
    ran = results["scripted"]
    run = Path(ran.json["run_dir"])
    assert re.fullmatch(r"[0-9T:+-]+__tiny__scripted__none", run.name)
    for name in ("run.json", "attempts.jsonl", "events.jsonl", "report_summary.md"):
        assert (run / name).is_file(), name
    assert (run / "report_summary.md").read_text().startswith("# 1 of 1 passed: contract rate 100.0%")
    assert "NOT CLOSED" not in (run / "report_summary.md").read_text(), "the process that writes it closes the run"
    folder = attempt_folder(ran)
    assert folder == run / "tasks/answer"
    assert (folder / "diffs/step_0001.patch").is_file()
    logs = [f"logs/{step}_{stream}.txt" for step in ("setup", "failing", "passing") for stream in ("stdout", "stderr")]
    for name in (
        *("task.yaml", "manifest.json", "events.jsonl", "agent/conversation.jsonl", "agent/tool_calls.jsonl"),
        *("diffs/final.patch", "meta/timings.json", "meta/environment.json", "meta/record.json", *logs),
    ):
        missing = [agent for agent, ran in results.items() if not (attempt_folder(ran) / name).is_file()]
        assert not missing, name
    record = json.loads((run / "attempts.jsonl").read_text())
    assert re.fullmatch(r"[0-9A-HJKMNP-TV-Z]{26}", record["run_id"])
    assert re.search(r"(Z|[+-]\d\d:?\d\d)$", record["timestamps"]["started_at"])


@pytest.mark.req("T-04d", "E-09b")
def test_subagents_have_a_delegation_graph_and_conversations_of_their_own(ab: Ab, task: Path, tmp_path: Path) -> None:
    answers = (
        '{"next": "patch", "task": "set it to 42", "why": "one file"}',
        f"```diff\n{PATCH}```",
    )
    ran = with_model(ab, task, script(tmp_path, *({"text": text} for text in answers)), agent="subagents")
    assert ran.record["result"]["passed"], ran.stderr
    folder = attempt_folder(ran)
    events = [event.payload for event in read_events(folder / "events.jsonl", types={Delegation.type})]
    graph = [(event.parent, event.child) for event in events if isinstance(event, Delegation)]
    assert graph == [("subagents", "router"), ("router", "patcher")]
    lines = conversation_lines(folder)
    assert [line["role"] for line in lines if line["parent"] is None] == ["system", "system"]
    tools = [json.loads(line) for line in (folder / "agent/tool_calls.jsonl").read_text().splitlines()]
    assert tools[0]["arguments"]["command"] == FAILING


@pytest.mark.req("T-04e")
def test_external_program_is_an_agent(ab: Ab, task: Path) -> None:
    ran = ab.by_command(task, "sh check.sh; sed -i s/41/42/ answer.txt && sh check.sh")
    assert ran.record["result"]["passed"], ran.stderr
    assert ran.record["observability"] == "process"
