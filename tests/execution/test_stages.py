"""Strict stages in whole runs: denials, requests, the recorded plan, the manifest, and programs that are refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from agentbench.record.manifest import GuardPlan
from agentbench.record.recompute import recompute_rules
from agentbench.trace.log import read_events
from tests.execution.conftest import Ab, Ran
from tests.execution.tasks import PATCH, make_task

pytestmark = [pytest.mark.req("R-04a", "R-04b", "C-08d"), pytest.mark.end_to_end]

POLICY = "policy: {stage_mode: strict, stages: [inspect, plan, write, test]}\nhints: {test_command: grep -qx 42 answer.txt}\n"
PLAN = "Change 41 to 42 in answer.txt.\nTouch nothing else."
FIX: dict[str, Any] = {"apply_patch": {"unified_diff": PATCH}}


def request(stage: str, reason: str) -> dict[str, Any]:
    return {"request_stage": {"stage": stage, "reason": reason}}


STEPS: list[dict[str, Any]] = [
    {"run": {"command": "touch early"}},
    FIX,
    request("test", "skip the rest"),
    request("plan", "the file is read"),
    request("write", PLAN),
    FIX,
    request("test", "check it"),
    {"run": {"command": "grep -qx 42 answer.txt && test ! -e early"}},
]


@pytest.fixture
def task(tmp_path: Path) -> Path:
    return make_task(tmp_path / "task", more=POLICY)


def events(ran: Ran, kind: str) -> list[dict[str, Any]]:
    folder = Path(ran.json["run_dir"]) / ran.record["artifact_paths"]["task_dir"]
    read = [json.loads(line) for line in (folder / "events.jsonl").read_text().splitlines()]
    return [event["payload"] for event in read if event["type"] == kind]


def guard(ran: Ran) -> dict[str, Any]:
    folder = Path(ran.json["run_dir"]) / ran.record["artifact_paths"]["task_dir"]
    planned = json.loads((folder / "manifest.json").read_text())["protocol_manifest"]["planned"]
    assert isinstance(planned["guard"], dict)
    return planned["guard"]


def stages(ran: Ran) -> list[tuple[str | None, str, str]]:
    return [(event["before"], event["after"], event["reason"]) for event in events(ran, "stage_changed")]


def test_strict_run_denies_records_the_plan_and_verifies(ab: Ab, task: Path) -> None:
    (task / "scripted.yaml").write_text(yaml.safe_dump({"steps": STEPS}))
    ran = ab.run_task(task, "--agent", "scripted")
    assert ran.code == 0, ran.stderr
    assert ran.record["result"]["passed"], ran.record
    errors = [event["error_type"] for event in events(ran, "tool_call_finished")]
    assert errors == ["stage_denied"] * 3 + [None] * 5
    assert stages(ran) == [
        (None, "inspect", ""),
        ("inspect", "plan", "the file is read"),
        ("plan", "write", PLAN),
        ("write", "test", "check it"),
    ]
    assert (guard(ran)["stage_mode"], guard(ran)["stages_enforced"]) == ("strict", True)
    assert guard(ran)["stages"] == ["inspect", "plan", "write", "test"]
    run = ran.json["run_dir"]
    assert ab("verify", run).stdout.startswith("VERIFIED")
    shown = ab("show", run).stdout
    assert "plan → write  plan: Change 41 to 42 in answer.txt.\n      | Touch nothing else." in shown


def test_same_script_in_auto_mode_enters_stages_by_its_calls(ab: Ab, tmp_path: Path) -> None:
    task = make_task(tmp_path / "task")
    (task / "scripted.yaml").write_text(yaml.safe_dump({"steps": [{"run": {"command": "touch early"}}, FIX]}))
    ran = ab.run_task(task, "--agent", "scripted")
    assert stages(ran) == [(None, "inspect", ""), ("inspect", "test", "")]
    assert (guard(ran)["stage_mode"], guard(ran)["stages_enforced"]) == ("auto", False)
    assert "requested stages" not in ab("show", ran.json["run_dir"]).stdout


def test_recomputation_finds_calls_outside_their_stage(ab: Ab, tmp_path: Path) -> None:
    task = make_task(tmp_path / "task")
    (task / "scripted.yaml").write_text(yaml.safe_dump({"steps": [{"run": {"command": "touch early"}}, FIX]}))
    ran = ab.run_task(task, "--agent", "scripted")
    folder = Path(ran.json["run_dir"]) / ran.record["artifact_paths"]["task_dir"]
    plan = GuardPlan.model_validate(guard(ran))
    log = list(read_events(folder / "events.jsonl"))
    assert recompute_rules(log, plan).differences == ()
    problems = recompute_rules(log, plan.model_copy(update={"stage_mode": "strict"})).differences
    assert [problem.partition(": ")[2] for problem in problems] == [
        "stage changed from inspect to test, expected write",
        "stage changed to test without a request",
        "workspace_mutated in a call outside its stage",
        "run was executed outside its stage: it started in the stage inspect",
    ]


def tool_call(name: str, **arguments: Any) -> dict[str, Any]:
    return {"tool_calls": [{"name": name, "arguments": arguments}]}


MODEL_ANSWERS: dict[str, list[dict[str, Any]]] = {
    "llm_v0": [
        tool_call("read_file", path="answer.txt"),
        tool_call("request_stage", stage="plan", reason="read"),
        tool_call("request_stage", stage="write", reason=PLAN),
        tool_call("apply_patch", unified_diff=PATCH),
        tool_call("request_stage", stage="test", reason="check it"),
        {"text": "Done."},
    ],
    "subagents": [
        {"text": json.dumps({"next": "patch", "task": PLAN})},
        {"text": f"```diff\n{PATCH}```"},
        {"text": json.dumps({"next": "stop", "why": "done"})},
    ],
}
MODEL_ANSWERS["context_packer"] = MODEL_ANSWERS["llm_v0"]


@pytest.mark.parametrize("agent", sorted(MODEL_ANSWERS))
def test_model_agents_solve_a_strict_task(ab: Ab, task: Path, tmp_path: Path, agent: str) -> None:
    answers = tmp_path / "answers.yaml"
    answers.write_text(yaml.safe_dump({"answers": MODEL_ANSWERS[agent], "after": "fail"}))
    ran = ab.run_task(task, "--agent", agent, "--model", f"scripted:{answers}")
    assert ran.code == 0, ran.stderr
    assert ran.record["result"]["passed"], ran.record
    assert [after for _, after, _ in stages(ran)] == ["inspect", "plan", "write", "test"]
    assert ("plan", "write", PLAN) in stages(ran)
    (briefing,) = events(ran, "briefing")
    assert "in this order: `inspect`, `plan`, `write`, `test`" in briefing["text"]
    assert ab("verify", ran.json["run_dir"]).stdout.startswith("VERIFIED")


def test_reference_passes_a_strict_task(ab: Ab, task: Path) -> None:
    ran = ab.run_task(task, "--agent", "reference")
    assert ran.record["result"]["passed"], ran.record
    assert ab("verify", ran.json["run_dir"]).stdout.startswith("VERIFIED")


@pytest.mark.parametrize(
    "arguments",
    [
        ("--agent", "command", "--agent-command", "true"),
        ("--agent", "cli:mini-swe-agent", "--model", "scripted:none.yaml"),
    ],
    ids=["command", "cli"],
)
def test_program_is_refused_before_a_strict_run(ab: Ab, task: Path, tmp_path: Path, arguments: tuple[str, ...]) -> None:
    ran = ab.run_task(task, *arguments, "--out", tmp_path / "out")
    assert ran.code == 2
    assert "`stage_mode: strict` cannot be enforced on a program" in ran.stderr
    assert not (tmp_path / "out").exists()
