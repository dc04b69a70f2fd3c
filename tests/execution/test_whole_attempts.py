"""Whole attempts by scripted agents, read as a user reads them: tools, evidence, limits and reports."""

from __future__ import annotations

import json
import os
import re
import shutil
from dataclasses import dataclass
from datetime import datetime
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.execution.conftest import Ab
from tests.execution.tasks import PATCH, make_task

pytestmark = [pytest.mark.end_to_end, pytest.mark.xdist_group("whole-attempts")]

HALF_BAD = (
    PATCH
    + """\
diff --git a/src/mod.py b/src/mod.py
--- a/src/mod.py
+++ b/src/mod.py
@@ -1 +1 @@
-VALUE = 40
+VALUE = 42
"""
)
LOUD = "i=0; while [ $i -lt 4000 ]; do echo line $i of a very long output; i=$((i + 1)); done"
SETUP = """
setup: {commands: ["echo made by setup > built.txt"], capture: ["uname -s"]}
"""
COIN = "grep -qx 42 answer.txt && test $(od -An -N1 -tu1 /dev/urandom) -lt 128"


def step(tool: str, **arguments: object) -> dict[str, object]:
    return {tool: arguments}


STORIES: dict[str, tuple[list[dict[str, object]], str]] = {
    "tools": (
        [
            step("list_files", root="."),
            step("read_file", path="answer.txt"),
            step("search", query="VALUE"),
            step("run", command="cat built.txt; echo trouble >&2; exit 3"),
            step("apply_patch", unified_diff=PATCH),
        ],
        SETUP,
    ),
    "paths": (
        [
            step("read_file", path="../../etc/passwd"),
            step("read_file", path="/etc/passwd"),
            step("run", command="ln -s /etc link"),
            step("read_file", path="link/passwd"),
            step("run", command="echo changed > src/mod.py"),
        ],
        "policy: {editable_globs: ['*.txt', link]}",
    ),
    "half": ([step("apply_patch", unified_diff=HALF_BAD), step("read_file", path="answer.txt")], ""),
    "loud": ([step("run", command=LOUD)], ""),
    "burst": ([step("list_files", root=".", glob=f"{number}*") for number in range(42)], "agent: {max_steps: 60}"),
}


@dataclass(frozen=True)
class Attempt:
    record: dict[str, Any]
    events: list[dict[str, Any]]
    folder: Path

    def payloads(self, kind: str) -> list[dict[str, Any]]:
        return [event["payload"] for event in self.events if event["type"] == kind]


@dataclass(frozen=True)
class Run:
    ab: Ab
    folder: Path
    attempts: dict[str, Attempt]

    def __getitem__(self, task: str) -> Attempt:
        return self.attempts[task]


def read_run(ab: Ab, folder: Path) -> Run:
    attempts = {}
    for line in (folder / "attempts.jsonl").read_text().splitlines():
        record = json.loads(line)
        task_dir = folder / record["artifact_paths"]["task_dir"]
        events = [json.loads(text) for text in (task_dir / "events.jsonl").read_text().splitlines()]
        attempts[record["task_id"]] = Attempt(record, events, task_dir)
    return Run(ab, folder, attempts)


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory, shared_state: Path) -> Run:
    base = tmp_path_factory.mktemp("whole")
    (base / "scripts").mkdir()
    for name, (steps, more) in STORIES.items():
        make_task(base / "tasks" / "tiny" / name, task_id=name, more=more + "\n")
        (base / "scripts" / f"{name}.yaml").write_text(yaml.safe_dump({"steps": steps}))
    ab = Ab(base, {"PATH": os.environ["PATH"], "AB_STATE": str(shared_state)})
    ran = ab(
        *("run", "--suite", "tiny", "--agent", "scripted", "--script", base / "scripts", "--out", base / "out"),
        *("--workers", "2", "--seed", "7", "--json"),
    )
    assert ran.code == 0, ran.stderr
    return read_run(ab, Path(ran.json["run_dir"]))


@pytest.mark.req("T-01", "E-04", "R-05")
def test_tools_return_and_log_their_results(run: Run) -> None:
    attempt = run["tools"]
    calls = attempt.payloads("tool_call_finished")
    assert [(call["tool"], call["ok"]) for call in calls] == [
        ("list_files", True),
        ("read_file", True),
        ("search", True),
        ("run", False),
        ("apply_patch", True),
    ]
    command = calls[3]
    assert (command["exit_code"], command["error_type"]) == (3, "nonzero_exit")
    # The agent starts from what setup left.
    assert command["stdout"]["text"] == "made by setup\n"
    assert command["stderr"]["text"] == "trouble\n"
    assert command["duration_us"] > 0
    assert calls[4]["changed_files"] == ["answer.txt"]
    assert attempt.record["result"]["passed"]


@pytest.mark.req("T-02", "C-08a")
def test_paths_outside_the_scope_are_refused(run: Run) -> None:
    calls = run["paths"].payloads("tool_call_finished")
    assert [call["error_type"] for call in calls] == ["path_unsafe", "path_unsafe", None, "path_unsafe", None]
    (alert,) = run["paths"].payloads("monitor_alert")
    assert (alert["monitor"], alert["rule"]) == ("scope", "editable_globs")
    assert run["paths"].record["result"]["failure_reason"] == "POLICY_VIOLATION"


@pytest.mark.req("T-03")
def test_patch_is_applied_completely_or_not_at_all(run: Run) -> None:
    refused, read = run["half"].payloads("tool_call_finished")
    assert (refused["ok"], refused["error_type"]) == (False, "patch_invalid")
    assert "src/mod.py" in refused["error_message"]
    assert "41" in read["stdout"]["text"]
    assert run["half"].record["patch"]["files"] == 0


@pytest.mark.req("R-16")
def test_long_output_is_cut_and_kept_by_digest(run: Run) -> None:
    (call,) = run["loud"].payloads("tool_call_finished")
    shown = call["stdout"]
    assert shown["truncated"]
    assert shown["total_bytes"] > len(shown["text"])
    assert re.fullmatch(r"[0-9a-f]{64}", shown["sha256"])


@pytest.mark.req("M-09")
def test_burst_of_calls_is_delayed_and_logged(run: Run) -> None:
    (alert, *_) = run["burst"].payloads("monitor_alert")
    assert (alert["monitor"], alert["rule"]) == ("backpressure", "burst")
    assert run["burst"].payloads("intervention")[0]["action"] == "throttle"


@pytest.mark.req("E-01", "E-02")
def test_events_form_one_typed_chain(run: Run) -> None:
    for attempt in run.attempts.values():
        events = attempt.events
        assert [event["seq"] for event in events] == list(range(1, len(events) + 1))
        assert all(
            later["t"] > earlier["t"] and later["prev"] == earlier["hash"] for earlier, later in pairwise(events)
        )
        assert {event["actor"] for event in events} <= {"agent", "harness", "monitor", "operator"}
        assert (events[0]["type"], events[-1]["type"]) == ("attempt_opened", "attempt_closed")


@pytest.mark.req("E-06", "E-16")
def test_acceptance_events_describe_the_whole_check(run: Run) -> None:
    (check,) = run["tools"].payloads("acceptance_check")
    assert (check["check_id"], check["outcome"], check["exit_code"]) == ("answer", "pass", 0)
    assert check["command"] == "grep -qx 42 answer.txt"
    assert check["ceiling_us"] == 120_000_000
    assert check["duration_us"] > 0
    (failed,) = run["loud"].payloads("acceptance_check")
    assert (failed["outcome"], failed["exit_code"]) == ("fail", 1)


@pytest.mark.req("E-05a")
def test_changes_by_tools_and_commands_have_events(run: Run) -> None:
    by_tool = run["tools"].payloads("patch_applied")[0]
    by_command = run["paths"].payloads("workspace_mutated")[-1]
    for event, path in ((by_tool, "answer.txt"), (by_command, "src/mod.py")):
        (file,) = event["files"]
        assert file["path"] == path
        assert file["before_sha256"] != file["after_sha256"]
    assert "+42" in by_tool["patch"]["text"]
    assert "+changed" in by_command["diff"]["text"]


@pytest.mark.req("E-09a")
def test_run_directory_has_its_documented_files(run: Run) -> None:
    for name in ("run.json", "attempts.jsonl", "events.jsonl", "report_summary.md"):
        assert (run.folder / name).is_file()
    attempt = run["tools"]
    assert attempt.folder == run.folder / "tasks" / "tools"
    for name in ("task.yaml", "manifest.json", "events.jsonl", "diffs/final.patch", "agent/tool_calls.jsonl"):
        assert (attempt.folder / name).is_file(), name
    for key in ("started_at", "ended_at"):
        assert datetime.fromisoformat(attempt.record["timestamps"][key]).tzinfo is not None
    assert len(attempt.record["attempt_id"]) == 26


@pytest.mark.req("M-01a", "R-11a")
def test_resources_and_conditions_are_recorded(run: Run) -> None:
    phases = {sample["phase"] for sample in run["tools"].payloads("resource_sample")}
    assert {"agent", "oracle"} <= phases
    manifest = json.loads((run["tools"].folder / "manifest.json").read_text())["protocol_manifest"]
    observed, planned = manifest["observed"], manifest["planned"]
    assert (planned["base_seed"], planned["seed"], observed["seed"], run["tools"].record["seed"]) == (7, 7, 7, 7)
    assert all(observed[name] for name in ("locale", "hardware", "started_at"))


@pytest.mark.req("R-11c", "L-06")
def test_other_base_seed_is_reported_as_a_deviation(run: Run) -> None:
    assert "seed 7" in run.ab("report", "summary", "--run", run.folder).stdout


@pytest.mark.req("E-15")
def test_failure_is_summarised_as_an_interpretation(run: Run) -> None:
    shown = run.ab("show", run.folder, "--task", "loud").stdout
    assert "interpretation" in shown.lower()


@pytest.mark.req("A-08")
def test_summary_lists_what_a_reproduction_needs(run: Run) -> None:
    text = run.ab("report", "summary", "--run", run.folder).stdout
    manifest = json.loads((run["tools"].folder / "manifest.json").read_text())["protocol_manifest"]
    assert manifest["observed"]["env_digest"][7:19] in text


@pytest.mark.req("E-14")
def test_runs_under_other_conditions_are_compared_with_declared_differences(run: Run, tmp_path: Path) -> None:
    other = run.ab("run", "--suite", "tiny", "--agent", "noop", "--out", tmp_path, "--workers", "2", "--json")
    compared = run.ab("report", "paired", "--run-a", run.folder, "--run-b", other.json["run_dir"], "--format", "json")
    assert compared.code == 0, compared.stderr
    assert not compared.json["comparability"]["comparable"]
    assert "A and B used different seeds" in compared.json["comparability"]["deviations"]


@pytest.mark.req("E-11")
def test_retention_deletes_bulky_evidence_and_logs_it(run: Run, tmp_path: Path) -> None:
    copy = tmp_path / run.folder.name
    shutil.copytree(run.folder, copy)
    kept = run.ab("retain", copy, "--approved-by", "eve", "--reason", "quarter closed")
    assert kept.code == 0, kept.stderr
    assert list(run.folder.glob("tasks/*/logs/*"))
    assert not list(copy.glob("tasks/*/logs/*"))
    assert "quarter closed" in (copy / "events.jsonl").read_text()
    assert run.ab("verify", copy).code == 0


@pytest.mark.req("M-10")
def test_dominated_attempt_is_stopped(ab: Ab, tmp_path: Path) -> None:
    task = make_task(tmp_path / "task", more="budget: {usd: 1.0}\n")
    prices = tmp_path / "prices.csv"
    prices.write_text("action_type,unit,unit_price,notes\ntool_call,call,0.1,\n")
    script = tmp_path / "script.yaml"
    script.write_text(yaml.safe_dump({"steps": [step("list_files", root=".", glob=f"{n}*") for n in range(9)]}))
    ran = ab.run_task(task, "--agent", "scripted", "--script", script, "--prices", prices)
    assert ran.record["termination"]["code"] == "dominance"
    assert ran.record["usage"]["tool_calls"] == 7


@pytest.mark.req("G-08")
def test_one_failing_rerun_fails_the_check(ab: Ab, tmp_path: Path) -> None:
    task = make_task(tmp_path / "task")
    text = (task / "task.yaml").read_text()
    (task / "task.yaml").write_text(
        text.replace("grep -qx 42 answer.txt", COIN).replace("timeout_sec: 120}", "timeout_sec: 120, reruns: 20}")
    )
    record = ab.run_task(task, "--agent", "reference").record
    assert record["run_status"] == "failure"
    assert record["checks"][0]["outcome"] == "fail"


@pytest.mark.req("R-08")
def test_attempt_cannot_change_what_the_next_one_gets(ab: Ab, tmp_path: Path) -> None:
    task = make_task(tmp_path / "task", more=SETUP)
    spoil = "echo spoiled > built.txt; echo spoiled > /usr/bin/grep; rm -rf /usr/lib/python3*; echo 42 > answer.txt"
    assert ab.by_command(task, spoil).record["result"]["passed"]
    honest = "grep -q 'made by setup' built.txt && echo 42 > answer.txt"
    assert ab.by_command(task, honest).record["result"]["passed"]


@pytest.mark.req("T-04a")
def test_bundled_agents_without_a_model(ab: Ab, tmp_path: Path) -> None:
    task = make_task(tmp_path / "task")
    script = tmp_path / "script.yaml"
    script.write_text(yaml.safe_dump({"steps": [step("apply_patch", unified_diff=PATCH)]}))
    passed = {
        agent: ab.run_task(task, "--agent", agent, *more).record["result"]["passed"]
        for agent, more in {"noop": (), "reference": (), "scripted": ("--script", script)}.items()
    }
    assert passed == {"noop": False, "reference": True, "scripted": True}


@pytest.mark.req("T-07")
def test_variant_file_decides_agent_and_limits(ab: Ab, tmp_path: Path) -> None:
    task = make_task(tmp_path / "task")
    variant = tmp_path / "careful.yaml"
    variant.write_text(yaml.safe_dump({"name": "careful", "agent": "reference", "limits": {"max_steps": 5}}))
    record = ab.run_task(task, "--variant", variant).record
    assert (record["variant"], record["agent"], record["result"]["passed"]) == ("careful", "reference", True)
