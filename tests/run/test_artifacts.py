"""Files of an attempt that people read: patches per step, the conversation, the kept workspace."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from agentbench.trace.log import read_events
from agentbench.tree.folder import FolderTree
from agentbench.tree.memory import MemoryTree
from agentbench.workspace.diff.apply import plan_writes
from agentbench.workspace.diff.extract import extract
from agentbench.workspace.diff.parse import parse
from tests.run.conftest import Ab, Ran
from tests.run.tasks import PATCH, make_task
from tests.run.test_models import ASK, SOLVED, calls, script, with_model

pytestmark = pytest.mark.end_to_end


@pytest.fixture
def task(tmp_path: Path) -> Path:
    return make_task(tmp_path / "task")


def attempt_folder(ran: Ran) -> Path:
    return Path(ran.json["run_dir"], ran.record["artifact_paths"]["task_dir"])


def replayed_patch(base: Path, steps: list[Path]) -> bytes:
    """Apply the steps in order to the base repository, and return the difference from it."""
    with FolderTree.at(base) as folder:
        found, tree = MemoryTree.copy(folder, max_bytes=10**6), MemoryTree.copy(folder, max_bytes=10**6)
    for step in steps:
        tree.apply(plan_writes(parse(step.read_bytes()), tree).writes)
    return extract(found, tree).patch


def conversation_lines(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / "agent/conversation.jsonl").read_text().splitlines()]


@pytest.mark.req("E-09c", "E-05a")
def test_step_patches_of_tools_give_the_final_patch(ab: Ab, task: Path, tmp_path: Path) -> None:
    model = script(
        tmp_path,
        calls("apply_patch", unified_diff=PATCH.replace("+42", "+40")),
        calls("run", command="printf 'x = 1\n' > src/new.py && sed -i s/40/39/ answer.txt && chmod +x src/mod.py"),
        calls("apply_patch", unified_diff=PATCH.replace("-41", "-39")),
        calls("run", command="mv src/new.py src/moved.py"),
        {"text": "Done."},
    )
    ran = with_model(ab, task, model)
    assert ran.record["result"]["passed"], ran.stderr
    diffs = attempt_folder(ran) / "diffs"
    steps = sorted(diffs.glob("step_*.patch"))
    assert [step.name for step in steps] == [f"step_{number:04}.patch" for number in (1, 2, 3, 4)]
    assert replayed_patch(task / "repo", steps) == (diffs / "final.patch").read_bytes()
    assert ab("verify", ran.json["run_dir"]).code == 0


@pytest.mark.req("E-09c")
def test_step_patches_of_a_program_give_the_final_patch(ab: Ab, task: Path) -> None:
    ran = ab.by_command(task, "echo 42 > answer.txt; mkdir sub; echo new > sub/file; rm src/mod.py")
    diffs = attempt_folder(ran) / "diffs"
    steps = sorted(diffs.glob("step_*.patch"))
    assert steps
    assert replayed_patch(task / "repo", steps) == (diffs / "final.patch").read_bytes()


@pytest.mark.req("E-09b", "T-04b")
def test_conversation_of_an_own_agent_has_each_message_once(ab: Ab, task: Path, tmp_path: Path) -> None:
    ran = with_model(ab, task, script(tmp_path, *SOLVED))
    folder = attempt_folder(ran)
    lines = conversation_lines(folder)
    roles = ["system", "user", "assistant", "tool", "assistant", "tool", "assistant"]
    assert [(line["index"], line["parent"], line["role"]) for line in lines] == [
        (index, index - 1 if index else None, role) for index, role in enumerate(roles)
    ]
    assert "answer.txt must say 42" in lines[1]["text"]
    assert lines[4]["tool_calls"][0]["name"] == "apply_patch"
    assert lines[4]["tool_calls"][0]["arguments"] == {"unified_diff": PATCH}
    assert lines[5]["tool_call_id"] == lines[4]["tool_calls"][0]["id"]
    types = {event.seq: event.type for event in read_events(folder / "events.jsonl")}
    assert {types[line["request"]] for line in lines} == {"llm_request"}
    assert [types.get(line["response"]) for line in lines if line["role"] == "assistant"] == ["llm_response"] * 3
    assert "agent/conversation.jsonl" in json.loads((folder / "meta/files.json").read_text())["files"]
    assert ab("verify", ran.json["run_dir"]).code == 0
    (folder / "agent/conversation.jsonl").write_text("{}\n")
    assert ab("verify", ran.json["run_dir"]).code == 1


@pytest.mark.req("E-09b", "T-04e", "T-05", "E-10a")
def test_conversation_of_a_program_is_redacted(ab: Ab, tmp_path: Path) -> None:
    task = make_task(tmp_path / "task", more="artifacts: {redact: [MY_TOKEN]}\n")
    program = tmp_path / "program"
    program.mkdir()
    (program / "ask.py").write_text(ASK)
    model = script(tmp_path, {"text": "42\n"})
    secret = 'tok"en-9f8e7d6c5b4a'
    line = f"python3 $AB_AGENT_FILES/ask.py '{secret} how much?'"
    arguments = ("--agent", "command", "--agent-files", program, "--agent-command", line, "--model", model)
    ran = ab("run-task", "--task", task, "--json", *arguments, env={"MY_TOKEN": secret})
    assert ran.record["result"]["passed"], ran.stderr
    asked, answered = conversation_lines(attempt_folder(ran))
    assert asked["text"].startswith("[redacted:MY_TOKEN:")
    assert asked["text"].endswith(" how much?")
    assert (answered["role"], answered["text"], answered["parent"]) == ("assistant", "42\n", 0)
