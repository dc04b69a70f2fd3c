"""Cost caps on one attempt and on all of them hold across workers, and the work done before a cap is graded."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from agentbench.core.canonical import sha256_hex
from agentbench.execution.request import recorded_request
from agentbench.policy.prices import MICRO, money
from agentbench.record.run_directory import RunDirectory
from tests.execution.conftest import Ab
from tests.execution.tasks import PATCH, TASK, make_suite, make_task

pytestmark = pytest.mark.end_to_end

REQUEST = 0.042
"""Cost of one answer of 1,000 tokens in the fallback price schedule."""


def answers(path: Path) -> Path:
    """Write a model script: a patch first, then useless calls, each in an expensive answer."""
    calls: list[dict[str, Any]] = [{"name": "apply_patch", "arguments": {"unified_diff": PATCH}}]
    calls += [{"name": "list_files", "arguments": {"glob": f"*{number}"}} for number in range(40)]
    usage = {"prompt": 10, "completion": 1000}
    path.write_text(yaml.safe_dump({"answers": [{"tool_calls": [call], "usage": usage} for call in calls]}))
    return path


def run(ab: Ab, tmp_path: Path, *more: str, code: int = 0) -> list[dict[str, Any]]:
    tasks = make_suite(tmp_path / "tasks", "one", "two", "three")
    ran = ab(
        *("run", "--suite", "tiny", "--tasks-dir", tasks, "--agent", "llm_v0", "--out", tmp_path / "out", "--json"),
        *("--model", f"scripted:{answers(tmp_path / 'answers.yaml')}", "--max-steps", "100", *more),
    )
    assert ran.code == code, ran.stderr
    verified = ab("verify", ran.json["run_dir"])
    assert verified.code == 0, verified.stdout
    attempts = ran.json["attempts"]
    assert isinstance(attempts, list)
    return attempts


@pytest.mark.req("C-09", "M-06a", "M-07a", "M-11")
def test_total_cap_holds_across_workers(ab: Ab, tmp_path: Path) -> None:
    attempts = run(ab, tmp_path, "--total-usd", "0.5", "--workers", "3", code=2)
    spent = sum(record["cost"]["lm"] for record in attempts)
    assert 0.5 * 0.98 - 3 * REQUEST <= spent <= 0.5 + 3 * REQUEST
    assert {record["termination"]["code"] for record in attempts} == {"total_budget"}
    assert all(record["termination"]["evidence"] for record in attempts)
    assert {(record["run_status"], record["invalid_cause"]) for record in attempts} == {("invalid", "operator")}
    assert not any(record["checks"] for record in attempts)
    for record in attempts:
        cost = record["cost"]
        assert cost["exec"] > 0 or not record["usage"]["tool_calls"]
        assert cost["total"] == pytest.approx(cost["lm"] + cost["exec"] + cost["human"] + cost["overhead"])


@pytest.mark.req("C-09", "M-07a")
def test_task_cap_covers_all_repeats(ab: Ab, tmp_path: Path) -> None:
    attempts = run(ab, tmp_path, "--task-usd", "0.2", "--repeats", "2", "--workers", "2", code=2)
    by_task: dict[str, float] = {}
    for record in attempts:
        by_task[record["task_id"]] = by_task.get(record["task_id"], 0) + record["cost"]["lm"]
    assert set(by_task) == {"one", "two", "three"}
    assert all(spent <= 0.2 + 2 * REQUEST for spent in by_task.values())
    assert {record["termination"]["code"] for record in attempts} == {"total_budget"}


PRICES = "action_type,unit,unit_price\ntool_call,call,0.1\nllm_request,call,0.05\n"
STEPS: list[dict[str, Any]] = [
    {"apply_patch": {"unified_diff": PATCH}},
    *({"list_files": {"glob": f"*{number}"}} for number in range(20)),
]


def priced_run(ab: Ab, tmp_path: Path, names: tuple[str, ...], usd: float, *more: str) -> list[dict[str, Any]]:
    """Run an agent without a model whose every call costs 0.1."""
    tasks = make_suite(tmp_path / "tasks", *names)
    for name in names:
        file = tasks / "tiny" / name / "task.yaml"
        file.write_text(f"{file.read_text()}budget: {{usd: {usd}}}\n")
    (tmp_path / "script.yaml").write_text(yaml.safe_dump({"steps": STEPS}))
    (tmp_path / "prices.csv").write_text(PRICES)
    ran = ab(
        *("run", "--suite", "tiny", "--tasks-dir", str(tasks), "--agent", "scripted", "--json", *more),
        *("--script", tmp_path / "script.yaml", "--prices", tmp_path / "prices.csv", "--out", tmp_path / "out"),
    )
    assert ran.code == 0, ran.stderr
    verified = ab("verify", ran.json["run_dir"])
    assert verified.code == 0, verified.stdout
    attempts = ran.json["attempts"]
    assert isinstance(attempts, list)
    return attempts


@pytest.mark.req("C-09", "M-05", "M-06a", "M-07a", "M-11")
def test_execution_counts_against_the_attempt_cap(ab: Ab, tmp_path: Path) -> None:
    (record,) = priced_run(ab, tmp_path, ("one",), 1.0)
    assert record["cost"]["unit"] == "usd"
    assert record["cost"]["method_id"] == f"prices@sha256:{sha256_hex(PRICES.encode())}"
    assert record["termination"]["code"] == "cost_cap"
    rationale = "cost cap: 0.90 of 1.00 usd used, 0.15 reserved for acceptance"
    assert record["termination"]["rationale"] == rationale
    # Nine calls use up the cap less the expected cost of acceptance: one check and a margin of 50%.
    assert record["usage"]["tool_calls"] == 9
    assert record["result"]["passed"]
    assert record["cost"]["total"] == pytest.approx(1.0)
    assert "budget.overrun" not in {tag["id"] for tag in record["tags"]}
    assert record["components"]["efficiency"] == pytest.approx(0.1)
    assert record["cost"]["lm"] == 0


@pytest.mark.req("C-09", "M-07a", "M-11")
def test_cap_of_zero_ends_the_attempt_at_the_first_cost(ab: Ab, tmp_path: Path) -> None:
    (record,) = priced_run(ab, tmp_path, ("one",), 0)
    assert record["termination"]["code"] == "cost_cap"
    assert record["usage"]["tool_calls"] == 1
    assert record["termination"]["rationale"] == "cost cap: 0.10 of 0.00 usd used, 0.15 reserved for acceptance"


@pytest.mark.req("C-09", "M-07a")
def test_cap_of_zero_does_not_stop_free_commands(ab: Ab, tmp_path: Path) -> None:
    task = make_task(tmp_path / "task", more="budget: {usd: 0}\n")
    (tmp_path / "script.yaml").write_text(yaml.safe_dump({"steps": STEPS[:3]}))
    script = ("--agent", "scripted", "--script", tmp_path / "script.yaml")
    ran = ab.run_task(task, *script, "--prices", without_execution(tmp_path))
    assert ran.record["termination"]["code"] == "agent_stopped"
    assert ran.record["result"]["passed"]
    assert ab("verify", ran.json["run_dir"]).code == 0


@pytest.mark.req("C-09", "M-07a")
def test_execution_counts_against_the_shared_cap(ab: Ab, tmp_path: Path) -> None:
    attempts = priced_run(ab, tmp_path, ("one", "two", "three"), 100.0, "--total-usd", "3")
    calls = [record["usage"]["tool_calls"] for record in attempts]
    assert calls[0] == 21
    assert sum(calls) <= 31
    assert [record["termination"]["code"] for record in attempts] == ["agent_stopped", "total_budget", "total_budget"]
    assert {record["termination"]["evidence"] != [] for record in attempts[1:]} == {True}


def test_attempt_that_never_started_has_the_level_and_model_of_its_configuration(ab: Ab, tmp_path: Path) -> None:
    tasks = make_suite(tmp_path / "tasks", "one", "two")
    (tmp_path / "model.yaml").write_text("answers: [{text: Done.}]\n")
    (tmp_path / "prices.csv").write_text(PRICES)
    ran = ab(
        *("run", "--suite", "tiny", "--tasks-dir", tasks, "--agent", "command", "--agent-command", "true", "--json"),
        *("--model", f"scripted:{tmp_path / 'model.yaml'}", "--prices", tmp_path / "prices.csv"),
        *("--total-usd", "0.001", "--out", tmp_path / "out"),
    )
    made, not_started = ran.json["attempts"]
    assert not_started["termination"]["rationale"].startswith("not started: the run's total budget")
    assert (not_started["observability"], not_started["model"]) == (made["observability"], made["model"])
    assert (made["observability"], made["model"]["name"]) == ("gateway", "scripted")


@pytest.mark.req("C-09", "R-13")
def test_spent_total_starts_no_attempt_and_resumes_with_a_higher_cap(ab: Ab, tmp_path: Path) -> None:
    attempts = priced_run(ab, tmp_path, ("one", "two", "three"), 100.0, "--total-usd", "3")
    stopped, not_started = attempts[1:]
    assert stopped["termination"]["rationale"].startswith("the run's total budget (--total-usd) is spent: ")
    assert not_started["termination"]["rationale"].startswith("not started: the run's total budget")
    assert not_started["usage"]["tool_calls"] == 0
    assert {record["observability"] for record in attempts} == {"tools"}
    for record in (stopped, not_started):
        assert (record["run_status"], record["invalid_cause"]) == ("invalid", "operator")
        assert record["result"]["failure_reason"] == "INTERRUPTED"
    (run,) = (tmp_path / "out").iterdir()
    refused = ab("run", "--resume", run)
    assert (refused.code, "higher --total-usd" in refused.stderr) == (2, True), refused.stderr
    ran = ab("run", "--resume", run, "--total-usd", "100", "--json")
    assert [record["result"]["passed"] for record in ran.json["attempts"]] == [True] * 3, ran.stderr
    assert ran.json["attempts"][0]["attempt_id"] == attempts[0]["attempt_id"]
    assert ab("verify", run).code == 0
    assert recorded_request(RunDirectory.open(run)).total_usd == 100


@pytest.mark.parametrize("option", ["--total-usd", "--task-usd"])
def test_cap_of_zero_for_a_run_is_refused(ab: Ab, tmp_path: Path, option: str) -> None:
    tasks = make_suite(tmp_path / "tasks", "one")
    ran = ab("run", "--suite", "tiny", "--tasks-dir", tasks, "--agent", "noop", "--out", tmp_path / "out", option, "0")
    assert (ran.code, f"'{option}': 0.0 is not in the range x>0" in ran.stderr) == (2, True), ran.stderr
    assert not (tmp_path / "out").exists()


@pytest.mark.req("M-06b", "M-07c")
def test_overrun_is_tagged_and_reported_but_changes_no_verdict(ab: Ab, tmp_path: Path) -> None:
    """The check is quick on the base repository and slow with the patch, so it costs more than the reserve."""
    slow = TASK.format(id="slow").replace("grep -qx 42 answer.txt", "grep -qx 42 answer.txt && sleep 1")
    task = make_task(tmp_path / "task", text=slow, more="budget: {usd: 0.25}\n")
    (tmp_path / "script.yaml").write_text(yaml.safe_dump({"steps": STEPS[:1]}))
    (tmp_path / "prices.csv").write_text("action_type,unit,unit_price\ntool_call,second,1\n")
    ran = ab.run_task(
        task, "--agent", "scripted", "--script", tmp_path / "script.yaml", "--prices", tmp_path / "prices.csv"
    )
    record = ran.record
    assert record["result"]["passed"]
    assert record["termination"]["code"] == "agent_stopped"
    assert record["cost"]["total"] > 1
    assert record["cost"]["phases"]["acceptance"] > 1
    assert sum(record["cost"]["phases"].values()) == pytest.approx(record["cost"]["total"])
    (tag,) = [tag for tag in record["tags"] if tag["id"] == "budget.overrun"]
    assert tag["evidence"]
    assert tag["attributes"]["cap"] == "250000"
    run = ran.json["run_dir"]
    assert ab("verify", run).code == 0
    total = money(round((record["cost"]["total"] - record["cost"]["judge"]) * MICRO))
    assert f"cap 0.25 usd, total {total} usd" in ab("show", run).stdout
    assert "1 attempt cost more than its cap" in ab("report", "summary", "--run", run).stdout
    (row,) = csv.DictReader(io.StringIO(ab("report", "summary", "--run", run, "--format", "csv").stdout))
    assert row["overrun"] == "true"


@pytest.mark.req("M-07b")
def test_headroom_is_the_expected_cost_of_acceptance(ab: Ab, tmp_path: Path) -> None:
    task = make_task(tmp_path / "task", more="budget: {usd: 2}\n")
    (tmp_path / "prices.csv").write_text(
        "action_type,unit,unit_price\ntool_call,call,0.4\nartifact_storage,megabyte,0.1\n"
    )
    ran = ab.run_task(task, "--agent", "noop", "--prices", tmp_path / "prices.csv")
    folder = Path(ran.json["run_dir"]) / ran.record["artifact_paths"]["task_dir"]
    manifest = json.loads((folder / "manifest.json").read_text())
    planned = manifest["protocol_manifest"]["planned"]
    # One check for 0.4 and a margin of 50%, and 1 MB of evidence for 0.1.
    assert planned["headroom"]["micro"] == 700_000
    assert planned["headroom"]["executions"] == 1
    assert planned["guard"]["cost_micro_usd"] == 1_300_000
    free = ab.run_task(make_task(tmp_path / "free"), "--agent", "noop", "--prices", without_execution(tmp_path))
    folder = Path(free.json["run_dir"]) / free.record["artifact_paths"]["task_dir"]
    planned = json.loads((folder / "manifest.json").read_text())["protocol_manifest"]["planned"]
    assert planned["headroom"]["micro"] == 100_000


def without_execution(folder: Path) -> Path:
    path = folder / "storage.csv"
    path.write_text("action_type,unit,unit_price\nartifact_storage,megabyte,0.1\n")
    return path
