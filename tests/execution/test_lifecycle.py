"""The events of a real attempt show its phases, each complete before the next begins."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from agentbench.core.canonical import sha256_hex
from tests.execution.conftest import Ab
from tests.execution.tasks import PATCH, make_task

pytestmark = [pytest.mark.end_to_end, pytest.mark.req("R-01")]

PHASES: dict[str, set[str]] = {
    "opening": {"attempt_opened", "task_started"},
    "setup": {"setup_command_started", "setup_command_finished"},
    "identity": {"identity_bound"},
    "briefing": {"briefing"},
    "agent": {
        *(
            "stage_changed",
            "agent_turn_started",
            "llm_request",
            "llm_response",
            "tool_call_started",
            "tool_call_finished",
        ),
        *("workspace_mutated", "monitor_alert", "intervention", "process_started", "process_finished", "termination"),
    },
    "patch": {"patch_extracted", "scorer_result"},
    "acceptance": {
        *("build_started", "build_finished", "static_started", "static_finished", "tests_started", "tests_finished"),
        *("acceptance_check", "integrity_finding"),
    },
    "packaging": {"gates_decided", "task_finished", "attempt_closed"},
}
AT_ANY_TIME = {"resource_sample"}


def phase_of(event: dict[str, Any]) -> str:
    if event["type"] == "patch_applied":
        # Tools apply patches in a call, grading outside of one.
        return "acceptance" if event["payload"]["call_id"] is None else "agent"
    return next(name for name, types in PHASES.items() if event["type"] in types)


def events_of(out: Path) -> list[dict[str, Any]]:
    (log,) = out.glob("*/tasks/*/events.jsonl")
    return [json.loads(line) for line in log.read_text().splitlines()]


def phases_in(events: list[dict[str, Any]]) -> list[str]:
    """Return the phases in order, each as often as the attempt entered it."""
    found: list[str] = []
    for event in events:
        if event["type"] not in AT_ANY_TIME and (not found or found[-1] != phase_of(event)):
            found.append(phase_of(event))
    return found


@pytest.fixture
def task(tmp_path: Path) -> Path:
    more = "setup: {commands: ['true']}\nscorers: [{name: small, type: max_files_changed, limit: 3}]\n"
    return make_task(tmp_path / "task", more=more)


def test_phases_of_a_model_agent_follow_each_other(ab: Ab, task: Path, tmp_path: Path) -> None:
    calls = [
        {"name": "run", "arguments": {"command": "ls"}},
        {"name": "apply_patch", "arguments": {"unified_diff": PATCH}},
    ]
    answers = [*({"text": "I see.", "tool_calls": [call]} for call in calls), {"text": "Done."}]
    (tmp_path / "answers.yaml").write_text(yaml.safe_dump({"answers": answers}))
    model = f"scripted:{tmp_path / 'answers.yaml'}"
    ran = ab.run_task(task, "--agent", "llm_v0", "--model", model, "--out", tmp_path / "out")
    assert ran.record["result"]["passed"], ran.record["termination"]
    assert phases_in(events_of(tmp_path / "out")) == list(PHASES)


def test_phases_of_a_program_follow_each_other(ab: Ab, task: Path, tmp_path: Path) -> None:
    ran = ab.by_command(task, "echo 42 > answer.txt", "--out", tmp_path / "out")
    assert ran.record["result"]["passed"], ran.record["termination"]
    assert phases_in(events_of(tmp_path / "out")) == list(PHASES)


def test_phases_that_a_failed_setup_prevents_are_missing(ab: Ab, tmp_path: Path) -> None:
    task = make_task(tmp_path / "task", more="setup: {commands: ['exit 3']}\n")
    ran = ab.by_command(task, "echo 42 > answer.txt", "--out", tmp_path / "out")
    assert ran.record["result"]["failure_reason"] == "SETUP_FAILED"
    events = [event for event in events_of(tmp_path / "out") if event["type"] != "termination"]
    assert phases_in(events) == ["opening", "setup", "packaging"]


def test_setup_failure_that_is_not_retried_costs_nothing(ab: Ab, tmp_path: Path) -> None:
    task = make_task(tmp_path / "task", more="setup: {commands: ['date +%s.%N; exit 3']}\n")
    for number, cached in enumerate((False, True)):
        out = tmp_path / str(number)
        record = ab.run_task(task, "--agent", "reference", "--out", out).record
        finished = [event["payload"] for event in events_of(out) if event["type"] == "setup_command_finished"]
        assert [(step["exit_code"], step["cached"]) for step in finished] == [(3, cached)]
        assert (record["cost"]["phases"]["setup"] == 0) is cached


@pytest.mark.req("R-02a")
def test_manifest_is_complete_when_the_agent_starts(ab: Ab, task: Path, tmp_path: Path) -> None:
    """The program cannot see the manifest, so the manifest must say that it was written before the program started."""
    ab.by_command(task, "echo 42 > answer.txt", "--out", tmp_path / "out")
    (manifest,) = (tmp_path / "out").glob("*/tasks/*/manifest.json")
    events = events_of(tmp_path / "out")
    bound = next(event for event in events if event["type"] == "identity_bound")
    assert bound["payload"]["manifest_sha256"] == sha256_hex(manifest.read_bytes())
    assert bound["seq"] < next(event["seq"] for event in events if event["type"] == "briefing")
