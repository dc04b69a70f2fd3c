"""Tasks with several turns, and tasks without a workspace, which are only judged."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from agentbench.trace.events import Briefing, JudgeResult, Payload
from agentbench.trace.log import read_events
from tests.execution.conftest import Ab
from tests.execution.tasks import make_task

pytestmark = pytest.mark.end_to_end

OPINION = {
    "task_completion": 5,
    "instruction_adherence": 4,
    "efficiency": 5,
    "facts": [],
    "reasoning": "It says what a median is.",
    "verdict": "PASS",
    "failure_mode": None,
}
TURNS = 'turns: ["Now make it 42.", "And say so."]\n'
EXPLAIN = "id: explain\nsuite: talk\nstatement: Explain what a median is.\nrepo: none\n"


def speaker(path: Path, *texts: str) -> str:
    path.write_text(yaml.safe_dump({"answers": [{"text": text} for text in texts]}))
    return f"scripted:{path}"


def talk(folder: Path, more: str = "") -> Path:
    folder.mkdir(parents=True)
    (folder / "task.yaml").write_text(EXPLAIN + more)
    return folder


def events(run: str, record: dict[str, Any], kind: type[Payload]) -> list[Any]:
    log = Path(run) / record["artifact_paths"]["task_dir"] / "events.jsonl"
    return [event.payload for event in read_events(log) if isinstance(event.payload, kind)]


# --- several turns ----------------------------------------------------------------------------------------------------


@pytest.mark.req("G-14")
def test_program_that_blocks_its_next_message_is_graded(tmp_path: Path, ab: Ab) -> None:
    task = make_task(tmp_path / "t", more=TURNS)
    record = ab.by_command(task, 'rm "$AB_BRIEFING"; mkdir -p "$AB_BRIEFING"').record
    assert (record["run_status"], record["result"]["failure_reason"]) == ("failure", "TOOL_ERROR")
    assert "cannot write /tmp/agentbench/briefing.md" in record["termination"]["rationale"]


@pytest.mark.req("G-13")
def test_program_runs_once_per_turn_and_is_graded_once(tmp_path: Path, ab: Ab) -> None:
    task = make_task(tmp_path / "t", more=TURNS + "scorers: [{name: all, type: file_exists, path: said.txt}]\n")
    line = 'cat "$AB_BRIEFING" >>/tmp/heard; case $AB_TURN in 2) echo 42 >answer.txt;; 3) tail -1 /tmp/heard >said.txt;; esac'
    judge = speaker(tmp_path / "judge.yaml", json.dumps(OPINION))
    done = ab.by_command(task, line, "--judge-model", judge)
    record = done.record
    assert record["result"]["passed"] is True
    assert [scorer["verdict"] for scorer in record["scorers"]] == ["PASS"]
    assert len(record["checks"]) == 1
    run = done.json["run_dir"]
    briefings = events(run, record, Briefing)
    assert [briefing.parts.get("turn") for briefing in briefings] == [None, "2", "3"]
    assert briefings[2].text == "And say so."
    (judged,) = events(run, record, JudgeResult)
    request = judged.exchanges[0].request
    assert "user, turn 2: Now make it 42." in request.model_dump_json()
    assert ab("verify", run).code == 0
    assert ab("replay", run).code == 0


def test_script_has_steps_for_each_turn(tmp_path: Path, ab: Ab) -> None:
    task = make_task(tmp_path / "t", more=TURNS)
    script = {"steps": [], "turns": [[{"run": {"command": "echo 42 >answer.txt"}}]]}
    (task / "scripted.yaml").write_text(yaml.safe_dump(script))
    record = ab.run_task(task, "--agent", "scripted").record
    assert record["result"]["passed"] is True
    assert record["usage"]["tool_calls"] == 1


def test_model_continues_the_same_conversation(tmp_path: Path, ab: Ab) -> None:
    task = make_task(tmp_path / "t", more=TURNS)
    fix = "```diff\n--- a/answer.txt\n+++ b/answer.txt\n@@ -1 +1 @@\n-41\n+42\n```\n"
    model = speaker(tmp_path / "model.yaml", "What should it be?", fix, "It says 42 now.", "Done.")
    done = ab.run_task(task, "--agent", "llm_v0", "--model", model)
    record = done.record
    assert record["result"]["passed"] is True
    assert record["termination"]["code"] == "agent_stopped"
    assert len(events(done.json["run_dir"], record, Briefing)) == 3


def test_failed_turn_ends_the_conversation(tmp_path: Path, ab: Ab) -> None:
    task = make_task(tmp_path / "t", more=TURNS)
    done = ab.by_command(task, "test $AB_TURN = 1")
    assert done.record["termination"]["code"] == "agent_crashed"
    assert len(events(done.json["run_dir"], done.record, Briefing)) == 2


def test_caps_cover_all_turns_together(tmp_path: Path, ab: Ab) -> None:
    task = make_task(tmp_path / "t", more=TURNS + "budget: {tool_calls: 3}\n")
    looks = [{"list_files": {}}, {"read_file": {"path": "answer.txt"}}]
    (task / "scripted.yaml").write_text(yaml.safe_dump({"steps": looks, "turns": [looks, looks]}))
    record = ab.run_task(task, "--agent", "scripted").record
    assert (record["termination"]["code"], record["usage"]["tool_calls"]) == ("tool_call_cap", 3)


def test_single_turn_program_is_rejected_before_the_run(tmp_path: Path, ab: Ab) -> None:
    task = make_task(tmp_path / "t", more=TURNS)
    done = ab.run_task(task, "--agent", "cli:aider", "--model", speaker(tmp_path / "m.yaml", "x"))
    assert done.code == 2
    assert "2 further turns" in done.stderr
    assert not (tmp_path / "artifacts").exists()


# --- no workspace -----------------------------------------------------------------------------------------------------


@pytest.mark.req("G-13", "G-12")
def test_task_without_a_workspace_is_only_judged(tmp_path: Path, ab: Ab) -> None:
    task = talk(
        tmp_path / "t", 'turns: ["And of two numbers?"]\nscorers: [{name: x, type: max_files_changed, limit: 0}]\n'
    )
    model = speaker(tmp_path / "model.yaml", "The middle value.", "Their mean.")
    judge = speaker(tmp_path / "judge.yaml", json.dumps(OPINION))
    done = ab.run_task(task, "--agent", "llm_v0", "--model", model, "--judge-model", judge)
    assert done.code == 0
    record = done.record
    assert record["judge"]["verdict"] == "PASS"
    # Neither pass nor fail, whatever the judge decides.
    assert (record["result"]["passed"], record["run_status"], record["invalid_cause"]) == (False, "invalid", "task")
    assert record["attribution"] == "indeterminate"
    assert (record["scorers"], record["workspace_verdict"], record["patch"], record["checks"]) == ([], "N/A", None, [])
    run = done.json["run_dir"]
    (judged,) = events(run, record, JudgeResult)
    request = judged.exchanges[0].request.model_dump_json()
    for words in ("Explain what a median is.", "The middle value.", "And of two numbers?", "Their mean."):
        assert words in request
    for piece in (" diff>>>", "acceptance checks>>>", "scorers>>>"):
        assert piece not in request
    assert ab("show", run, "--task", "explain").stdout.startswith("JUDGED PASS\n")
    assert ab("verify", run).code == 0
    replayed = ab("replay", run)
    # No check was compared, so the replay confirms nothing.
    assert (replayed.code, replayed.stdout.splitlines()[0]) == (
        2,
        "NOTHING TO COMPARE: 1 attempt: no workspace, judged only",
    )
    summary = ab("report", "summary", "--run", run, "--format", "json").json
    assert summary["decision"] == "ONLY JUDGED: 1 attempt without a workspace: 1 PASS"
    assert summary["rates"]["contract"]["total"] == summary["rates"]["acceptance"]["total"] == 0


@pytest.mark.req("G-13", "G-14")
def test_task_without_workspace_and_judge_is_not_judged(tmp_path: Path, ab: Ab) -> None:
    done = ab.by_command(talk(tmp_path / "t"), "echo The middle value.")
    assert (done.code, done.record["judge"]) == (0, None)
    run = done.json["run_dir"]
    assert ab("show", run).stdout.startswith("NOT JUDGED: the task has no workspace, and no judge was asked\n")
    assert "1 not judged" in ab("report", "summary", "--run", run).stdout.splitlines()[0]


def test_setup_failure_is_not_hidden_by_the_judge(tmp_path: Path, ab: Ab) -> None:
    task = talk(tmp_path / "t", "setup: {commands: ['exit 3']}\n")
    record = ab.by_command(task, "true").record
    assert (record["result"]["failure_reason"], record["invalid_cause"]) == ("SETUP_FAILED", "task")


@pytest.mark.req("C-19")
def test_task_without_a_workspace_cannot_be_graded_or_audited(tmp_path: Path, ab: Ab) -> None:
    task = talk(tmp_path / "tasks" / "talk" / "explain")
    checked = ab("validate-tasks", "--suite", "talk", "--tasks-dir", tmp_path / "tasks", "--json")
    assert checked.code == 0
    (validation,) = checked.json["tasks"]
    assert (validation["valid"], validation["baseline"], validation["why"]) == (
        True,
        "none",
        "no workspace, judged only",
    )
    (tmp_path / "x.patch").write_text("")
    graded = ab("grade", "--task", task, "--patch", tmp_path / "x.patch")
    assert (graded.code, "tasks without a repository" in graded.stderr) == (2, True)
    assert ab("task", "audit", task).code == 2
